"""Where the demo can send to: what it refuses before anything runs, and what the services are told. No server runs here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from dstream.commands.demo import OUTPUT_HELP
from dstream.config import load_both
from dstream.demo.destinations import file, kafka, nats, postgres
from dstream.demo.destinations.port import Destination
from dstream.demo.destinations.registry import NAMES, destination
from dstream.demo.processes import environment, write_config
from dstream.emulators import Login

SERVERS = {
    "azure_event_hubs": None,
    "elasticsearch": "http://localhost:9200",
    "file": "/a folder",
    "kafka": "localhost:9092",
    "nats": "nats://localhost:4222",
    "postgres": "postgresql://me:it%20is@localhost/demo",
    "webhook": None,
}


class Addresses:
    db_connection_string = "sqlserver://sa:secret@localhost?database=demo"
    bus_connection_string = (
        "Endpoint=sb://localhost;SharedAccessKeyName=k;SharedAccessKey=v;UseDevelopmentEmulator=true"
    )
    management_endpoint = "http://localhost:5300"
    login = Login("localhost", 1433, "sa", "secret", "demo")


def refused(name: str, server: str | None) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        destination(name, server)
    return caught.value


def test_every_type_is_tried_here_and_named_by_the_command() -> None:
    assert set(SERVERS) == set(NAMES)
    assert all(name in OUTPUT_HELP for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_services_accept_the_block_and_no_secret_is_in_it(name: str, tmp_path: Path) -> None:
    there: Destination = destination(name, SERVERS[name])
    try:
        if name == "azure_event_hubs":
            there._connection = Addresses.bus_connection_string  # type: ignore[attr-defined] # what the emulator announces
        config = write_config(tmp_path, Addresses(), "1s", more=there.ingester, output=there.block)
        _, router = load_both(config, {**environment(Addresses()), **there.variables})
    finally:
        if name == "webhook":
            there.reader()._server.server_close()  # type: ignore[attr-defined]
    assert router.output.type == name
    assert not [value for value in there.variables.values() if value in config.read_text() and value != "me"]


def test_a_password_is_taken_from_the_address() -> None:
    assert list(destination("postgres", SERVERS["postgres"]).variables.values()) == ["it is"]


def test_a_password_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "another")
    assert list(destination("postgres", "postgresql://me@localhost/demo").variables.values()) == ["another"]


def test_two_runs_share_no_place() -> None:
    assert destination("kafka", "localhost:9092").block != destination("kafka", "localhost:9092").block


def test_an_unknown_type_names_those_that_are_known() -> None:
    assert "azure_event_hubs, elasticsearch, file, kafka, nats, postgres, webhook" in str(refused("console", None))


@pytest.mark.parametrize(
    ("name", "server", "complaint"),
    [
        ("azure_event_hubs", "Endpoint=sb://x", "the demo starts the emulator"),
        ("elasticsearch", None, "needs --server URL"),
        ("elasticsearch", "localhost:9200", "--server must be http://"),
        ("elasticsearch", "http://localhost:port", "--server must be http://"),
        ("kafka", "localhost", "--server must be HOST:PORT"),
        ("kafka", "SASL_SSL://localhost:9092", "--server must be HOST:PORT"),
        ("nats", "localhost:4222", "--server must be nats://HOST:PORT"),
        ("nats", "nats://me:secret@localhost", "--server must be nats://HOST:PORT"),
        ("nats", "nats://localhost:port", "--server must be nats://HOST:PORT"),
        ("postgres", "localhost", "--server must be postgresql://"),
        ("postgres", "postgresql://localhost/demo", "--server must be postgresql://"),
        ("postgres", "postgresql://me@localhost:port/demo", "--server must be postgresql://"),
        ("webhook", "http://localhost", "the demo is the receiver"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(name: str, server: str | None, complaint: str) -> None:
    error = refused(name, server)
    assert complaint in str(error)
    assert "secret" not in str(error)


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'confluent_kafka'", name="confluent_kafka")

    monkeypatch.setattr("dstream.demo.destinations.registry.import_module", import_module)
    error = refused("kafka", None)
    assert ("confluent_kafka" in str(error), error.hint) == (True, "pip install 'dstream-cdc[kafka]'")


@pytest.mark.parametrize(
    ("module", "kind", "remedy"),
    [
        (kafka, "KafkaDestination", "set KAFKA_HOME"),
        (nats, "NatsDestination", "apt install nats-server"),
        (postgres, "PostgresDestination", "apt install postgresql"),
    ],
)
def test_a_server_that_is_not_installed_is_refused_with_what_to_install(
    module: Any, kind: str, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setattr(postgres, "_INSTALLED", tmp_path)
    monkeypatch.setattr(module, "free_port", lambda: 1)
    there = getattr(module, kind)(None)
    with pytest.raises(ConfigurationError) as caught:
        there.start()
    folder = there._program.folder
    there.stop()
    assert (remedy in str(caught.value.hint), "--server" in str(caught.value.hint)) == (True, True)
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigurationError, match=r"--server .*taken"):
        file.FileDestination(str(tmp_path / "taken")).start()
