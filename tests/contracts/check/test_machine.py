"""`dstream check` of this machine: Java, and the port of health and metrics. And of column types that no start could read."""

from __future__ import annotations

import socket

import pytest

from common.errors import PermanentError
from common.observability.health import HealthEndpoint
from common.observability.health_settings import HealthSettings
from ingester import check
from ingester.sqlserver import values
from tests.contracts.check.conftest import Place
from tests.worlds.ports import free_port


def _with_health(place: Place, port: int) -> None:
    place.settings["more"] = f'health {{\n        port = {port}\n        host = "127.0.0.1"\n    }}'


def test_a_machine_without_java_fails_with_the_remedy(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise PermanentError("starting Spark: no Java 17 or newer was found", hint="install a JRE")

    monkeypatch.setattr(check, "java_home", none)
    report = place.check("--stage", "ingester")
    assert report.status == 1
    assert report.said("fail", "Java") == "starting Spark: no Java 17 or newer was found: install a JRE"
    assert report.each("fail", "Spark's archive") == [], "one line is enough"


def test_java_is_found(place: Place) -> None:
    assert place.check("--stage", "ingester").said("ok", "Java")


def test_a_java_home_without_java_is_a_warning_with_the_java_that_is_used_instead(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nothing")
    report = place.check("--stage", "ingester")
    said = report.said("warn", "Java")
    assert said.startswith("JAVA_HOME names /nothing, which holds no Java 17 or newer; /")
    assert said.endswith(" is used: set JAVA_HOME to a Java 17 or newer, or unset it")
    assert report.status == 0


def test_the_folders_of_spark_can_be_written(place: Place) -> None:
    assert place.check("--stage", "ingester").said("ok", "Spark's folders").endswith(" can be written")


def test_a_health_port_that_a_stranger_has_fails(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        _with_health(place, stranger.getsockname()[1])
        report = place.check("--stage", "ingester")
    assert report.status == 1
    assert "choose another port" in report.said("fail", "health")


def test_a_health_port_that_is_free_is_ok_and_still_free_afterwards(place: Place) -> None:
    number = free_port()
    _with_health(place, number)
    assert "is free" in place.check("--stage", "ingester").said("ok", "health")
    socket.create_server(("127.0.0.1", number)).close()


def test_a_health_port_of_a_running_stage_is_no_fault(place: Place) -> None:
    number = free_port()
    settings = HealthSettings(port=number, host="127.0.0.1")
    with HealthEndpoint(settings, alive=lambda: None, ready=lambda: "starting", samples=lambda: ()):
        _with_health(place, number)
        assert "a running DStream service" in place.check("--stage", "ingester").said("ok", "health")


def test_a_column_type_that_is_not_carried_fails_and_names_the_column(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(values.PROJECTIONS, "nvarchar")
    report = place.check("--stage", "ingester")
    assert report.status == 1
    said = report.said("fail", "table dbo.Persons")
    assert "FirstName" in said
    assert "@captured_column_list" in said


@pytest.mark.parametrize(("stage", "warned"), [("both", True), ("ingester", False), ("router", False)])
def test_one_port_for_both_stages_is_a_warning_where_both_are_looked_at(place: Place, stage: str, warned: bool) -> None:
    place.settings["more"] = 'health { host = "127.0.0.1" }'
    place.settings["more_of_router"] = place.settings["more"]
    report = place.check("--stage", stage)
    found = [line for line in report.each("warn", "health") if "dstream server" in line]
    assert [("router.health.port" in line, "ingester.health.port" in line) for line in found] == [(True, True)] * warned
