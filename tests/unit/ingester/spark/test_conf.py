"""What Spark is told: the user's word over ours, no secret in clear on a cluster, and a file that Java reads as it was meant."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from common.errors import PermanentError
from ingester.blocks.spark import RESULTS_PORT
from ingester.spark.conf import (
    GUARDED,
    local_dirs,
    maskable,
    properties,
    results_port,
    spark_settings,
    unguarded,
)


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


def test_on_this_machine_the_jvm_begins_with_a_small_heap_and_the_users_options_are_alone_where_there_are_some() -> (
    None
):
    local, cluster = settings("local[2]"), settings("yarn")
    assert "-Xms48m -Xmn24m" in local["spark.driver.extraJavaOptions"]
    for options in (
        cluster["spark.driver.extraJavaOptions"],
        *(each["spark.executor.extraJavaOptions"] for each in (local, cluster)),
    ):
        assert "-Xm" not in options
    own = settings("local[2]", spark_driver_extraJavaOptions="-Xss1m")
    assert own["spark.driver.extraJavaOptions"] == "-Xss1m"


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


POD = {"POD_IP": "10.1.2.3", "POD_NAME": "ingester-7c9", "POD_NAMESPACE": "dstream"}
API = "k8s://https://kubernetes.default.svc"


def in_pod(**conf: str) -> dict[str, str]:
    named = {key.replace("_", "."): value for key, value in conf.items()}
    return spark_settings(API, named, local_dir=Path("/scratch"), log4j=Path("/log4j"), environment=POD)


def test_a_driver_in_a_pod_is_found_at_the_pods_address_and_at_ports_that_a_policy_can_name() -> None:
    found = in_pod()
    assert found["spark.driver.host"] == "10.1.2.3"
    assert [found[key] for key in ("spark.driver.port", "spark.blockManager.port", RESULTS_PORT)] == [
        "7078",
        "7079",
        "7080",
    ]
    assert found["spark.kubernetes.driver.pod.name"] == "ingester-7c9", "the executors end with it"
    assert found["spark.kubernetes.namespace"] == "dstream"
    own = in_pod(spark_driver_host="driver.dstream.svc", spark_driver_port="9000")
    assert (own["spark.driver.host"], own["spark.driver.port"]) == ("driver.dstream.svc", "9000")


def test_a_pods_variables_say_nothing_of_other_clusters_and_none_are_needed() -> None:
    conf = {"spark.authenticate.secret": "shared"}
    found = spark_settings("spark://m:7077", conf, local_dir=Path("/s"), log4j=Path("/l"), environment=POD)
    assert {"spark.driver.host", "spark.driver.port", RESULTS_PORT} & found.keys() == set()
    assert "spark.driver.host" not in settings(API)


@pytest.mark.parametrize(
    ("conf", "megabytes"),
    [
        ({}, "640m"),
        ({"spark_executor_cores": "4"}, "1408m"),
        ({"spark_executor_cores": "4", "spark_task_cpus": "2"}, "896m"),
        ({"spark_executor_memoryOverhead": "2g", "spark_executor_cores": "4"}, "2g"),
        ({"spark_executor_memoryOverheadFactor": "0.5"}, None),
    ],
)
def test_an_executors_pod_has_memory_for_the_python_workers_of_its_tasks(
    conf: dict[str, str], megabytes: str | None
) -> None:
    assert in_pod(**conf).get("spark.executor.memoryOverhead") == megabytes


@pytest.mark.parametrize("folder", ["/t mp", "/it's", '/a "b"', "/100%", "/back\\slash", "/a#b?c"])
def test_a_folder_of_any_name_is_one_option_of_java_for_whoever_splits_them(folder: str) -> None:
    log4j = Path(folder, "log4j2.properties")
    options = spark_settings("local", {}, local_dir=Path("/s"), log4j=log4j)["spark.driver.extraJavaOptions"]
    assert options.split() == shlex.split(options)
    name, _, url = options.split()[-1].partition("=")
    assert (name, unquote(urlsplit(url).path)) == ("-Dlog4j2.configurationFile", str(log4j))


@pytest.mark.parametrize("folder", ["/tmp", "/t mp", "/it's", '/a "b"', "/back\\slash"])
def test_java_has_the_folder_for_temporary_files_that_python_has(folder: str) -> None:
    options = spark_settings("local", {}, local_dir=Path("/s"), log4j=Path("/l"), temporary=Path(folder))
    assert f"-Djava.io.tmpdir={folder}" in shlex.split(options["spark.driver.extraJavaOptions"])


def test_where_no_socket_fits_into_the_folder_for_temporary_files_workers_are_reached_over_tcp() -> None:
    """Spark adds 43 characters, and Linux allows for 107."""
    sockets = "spark.python.unix.domain.socket.enabled"
    for length, enabled in ((61, "true"), (62, "false")):
        temporary = Path("/" + "x" * (length - 1))
        found = spark_settings("local", {}, local_dir=Path("/s"), log4j=Path("/l"), temporary=temporary)
        assert found[sockets] == enabled
    assert settings("local")[sockets] == "true"


def test_blocks_are_in_the_folders_that_spark_reads_from_its_variable_or_else_from_its_setting() -> None:
    named = {"spark.local.dir": "/one, /two"}
    assert local_dirs(named, {}) == [Path("/one"), Path("/two")]
    assert local_dirs(named, {"SPARK_LOCAL_DIRS": "/three"}) == [Path("/three")]
