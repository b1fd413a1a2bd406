"""What a check says of Spark's settings without starting it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

import pytest

from common.check import Outcome, guarded
from ingester.spark.check import findings, written

IMAGE = {"spark.kubernetes.container.image": "registry.example.com/dstream/ingester:1"}
SECRET = {"spark.authenticate.secret": "planted-secret"}
POD = {"POD_IP": "10.1.2.3"}


def said(master: str, conf: Mapping[str, str], environment: Mapping[str, str] = POD) -> list[tuple[Outcome, str]]:
    found = guarded("Spark", lambda: findings(master, conf, environment))
    return [(each.outcome, f"{each.text}: {each.hint}") for each in found]


def test_local_spark_has_nothing_to_say() -> None:
    assert said("local[8]", {}) == []


@pytest.mark.parametrize(("master", "conf"), [("k8s://https://api", IMAGE), ("spark://m:7077", SECRET)])
def test_a_cluster_that_is_set_up_is_ok(master: str, conf: Mapping[str, str]) -> None:
    [(outcome, text)] = said(master, conf)
    assert outcome is Outcome.OK
    assert master in text
    assert "planted-secret" not in text


@pytest.mark.parametrize(
    ("master", "conf", "outcome", "says"),
    [
        ("spark://m:7077", {}, Outcome.FAIL, "spark.authenticate.secret"),
        ("k8s://https://api", {}, Outcome.FAIL, "spark.kubernetes.container.image"),
        ("spark://m:7077", {"spark.authenticate": "false"}, Outcome.WARN, "spark.authenticate"),
        ("spark://m:7077", {**SECRET, "spark.driver.host": "localhost"}, Outcome.WARN, "spark.driver.host"),
        ("spark://m:7077", {**SECRET, "spark.speculation": "true"}, Outcome.WARN, "spark.speculation"),
        (
            "k8s://https://api",
            {**IMAGE, "spark.dynamicAllocation.enabled": "true"},
            Outcome.WARN,
            "spark.dynamicAllocation.maxExecutors",
        ),
        ("yarn", {}, Outcome.WARN, "YARN has not been tried"),
    ],
)
def test_what_is_wrong_is_named_with_its_setting(
    master: str, conf: Mapping[str, str], outcome: Outcome, says: str
) -> None:
    found = said(master, conf)
    assert any(each is outcome and says in text for each, text in found), found


def test_a_pod_that_does_not_know_its_address_is_warned_of() -> None:
    [(outcome, text)] = said("k8s://https://api", IMAGE, {})
    assert outcome is Outcome.WARN
    assert "POD_IP" in text


def test_the_folders_that_spark_writes_to_are_tried() -> None:
    [found] = guarded("Spark's folders", lambda: written({}, {}))
    assert (found.outcome, found.text) == (Outcome.OK, f"{tempfile.gettempdir()} can be written")
    [found] = guarded("Spark's folders", lambda: written({"spark.local.dir": "/proc/nope"}, {}))
    assert found.outcome is Outcome.FAIL
    assert found.text.startswith("Spark cannot write to /proc/nope: ")
    assert found.hint == "make it writable, or set TMPDIR and spark.local.dir to a folder that is"
