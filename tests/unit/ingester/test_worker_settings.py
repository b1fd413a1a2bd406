"""What travels to a worker: what it needs and no more, of one size whatever the number of tables."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from common.errors import PermanentError
from common.observability.tracing import variables
from ingester.worker_settings import VARIABLE, WorkerSettings, from_environment
from tests.unit.ingester.driver.test_reload import settings

_STORAGE = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c3RvcmFnZS1rZXk=;EndpointSuffix=core.windows.net"


def test_a_worker_gets_no_lock_setting_and_no_spark_setting() -> None:
    configured = settings(
        "Persons",
        locks={"type": "azure_blob", "connection_string": _STORAGE},
        spark={"conf": {"spark.hadoop.secret": "planted-in-conf"}},
    )
    travels = pickle.dumps(WorkerSettings.of(configured))
    for text in (b"c3RvcmFnZS1rZXk=", b"planted-in-conf", b"Persons"):
        assert text not in travels


def test_what_travels_does_not_grow_with_the_tables() -> None:
    few, many = (settings(*(f"Table{n}" for n in range(count))) for count in (1, 1000))
    assert len(pickle.dumps(WorkerSettings.of(many))) == len(pickle.dumps(WorkerSettings.of(few))) < 4096


def test_a_worker_of_this_machine_finds_them_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = WorkerSettings.of(settings("Persons", before_images=True))
    from_environment.cache_clear()
    monkeypatch.setenv(VARIABLE, given.environment()[VARIABLE])
    assert from_environment() == given
    from_environment.cache_clear()


def test_a_process_that_was_given_none_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from_environment.cache_clear()
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(PermanentError, match=VARIABLE):
        from_environment()


def test_variables_of_tracing_travel_where_they_switch_it_on() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert variables({"PATH": "/", "OTEL_EXPORTER_OTLP_HEADERS": "key=planted", **endpoint}) == (
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "key=planted"),
    )
    assert variables({**endpoint, "OTEL_SDK_DISABLED": "true"}) == ()
    assert variables({"OTEL_SERVICE_NAME": "mine"}) == ()


def test_its_repr_shows_no_secret() -> None:
    assert "planted" not in repr(replace(WorkerSettings.of(settings("Persons")), tracing=(("OTEL_X", "planted"),)))
    assert "AccountKey" not in repr(WorkerSettings.of(settings("Persons")))
    assert "SharedAccessKey=" not in repr(WorkerSettings.of(settings("Persons")))
