"""What Spark is told: the user's word over ours, no secret in clear on a cluster, and a file that Java reads as it was meant."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from common.errors import PermanentError
from ingester.spark.conf import GUARDED, RESULTS_PORT, maskable, properties, results_port, spark_settings, unguarded


def settings(master: str, **conf: str) -> dict[str, str]:
    named = {key.replace("_", "."): value for key, value in conf.items()}
    return spark_settings(master, named, local_dir=Path("/scratch"), log4j=Path("/log4j"))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_on_one_machine_nothing_is_encrypted_and_nothing_is_asked_for(master: str) -> None:
    found = settings(master)
    assert GUARDED.keys() & found.keys() == set()
    assert found["spark.driver.host"] == "127.0.0.1"
    assert unguarded(master, found) == []


@pytest.mark.parametrize("master", ["k8s://https://api:6443", "yarn"])
def test_a_cluster_that_makes_secrets_is_guarded_without_a_word(master: str) -> None:
    found = settings(master)
    assert {key: found[key] for key in GUARDED} == GUARDED
    assert unguarded(master, found) == []


@pytest.mark.parametrize("master", ["spark://m:7077", "local-cluster[2,1,512]", "spark://a:7077,b:7077"])
def test_a_cluster_without_a_secret_is_refused_with_the_remedy(master: str) -> None:
    with pytest.raises(PermanentError, match="passwords") as refused:
        settings(master)
    assert "spark.authenticate.secret" in (refused.value.hint or "")
    assert settings(master, spark_authenticate_secret="shared")["spark.network.crypto.enabled"] == "true"


def test_a_user_may_take_the_guards_off_by_name_and_is_told_of_each() -> None:
    off = {"spark_authenticate": "false", "spark_network_crypto_enabled": "false"}
    found = settings("spark://m:7077", **off)
    assert unguarded("spark://m:7077", found) == ["spark.authenticate", "spark.network.crypto.enabled"]


def test_conf_wins_over_every_default() -> None:
    assert settings("local[2]", spark_executor_memory="2g")["spark.executor.memory"] == "2g"


def test_numbers_and_words_of_conf_are_not_masked_and_longer_values_are() -> None:
    assert maskable({"a": "true", "b": "512m", "host": "127.0.0.1", "c": "hunter22-hunter22"}) == ["hunter22-hunter22"]


_READ = """
import java.io.*; import java.util.*; import java.nio.charset.*;
public class Read { public static void main(String[] a) throws Exception {
  Properties p = new Properties();
  try (Reader r = new InputStreamReader(new FileInputStream(a[0]), StandardCharsets.UTF_8)) { p.load(r); }
  PrintStream out = new PrintStream(System.out, true, "UTF-8");
  for (String k : new TreeSet<>(p.stringPropertyNames())) out.print(k + "\\u0001" + p.getProperty(k) + "\\u0002");
} }
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="no Java compiler to read properties with")
def test_java_reads_what_was_written(tmp_path: Path) -> None:
    given = {"spark.a": " lead", "b c": "x=y:z#!", "path": "C:\\new\\t", "lines": "a\nb\r\tc", "umlaut": "Grüße €"}
    (tmp_path / "p").write_text(properties(given), encoding="utf-8")
    (tmp_path / "Read.java").write_text(_READ)
    ran = subprocess.run(["java", "Read.java", "p"], cwd=tmp_path, capture_output=True, check=True, timeout=120)
    read = dict(item.split("\u0001") for item in ran.stdout.decode().split("\u0002") if item)
    assert read == given


def test_a_properties_file_escapes_what_java_would_take_apart() -> None:
    assert properties({"a b": " x\\y\nz=1"}) == "a\\ b=\\ x\\\\y\\nz=1\n"


def test_the_port_for_results_is_any_or_the_one_that_is_named() -> None:
    assert results_port({}) == 0
    assert results_port({RESULTS_PORT: "7079"}) == 7079
    for wrong in ("", "-1", "65536", "seven", "7079 "):
        with pytest.raises(PermanentError, match=r"spark\.dstream\.results\.port is .*1 to 65535"):
            results_port({RESULTS_PORT: wrong})
