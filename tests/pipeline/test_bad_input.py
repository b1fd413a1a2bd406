"""What a user gets wrong: one clear line each, the right exit status, no traceback, no secret. Run as a user runs it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dstream.emulators import Login
from emulators.servicebus.description import SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.azurite.server import Azurite, missing
from tests.azurite.server import connection_string as storage

SECRET = "s3cret-Passw0rd"

CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    queue {{
        type                = "servicebus"
        name                = "ingest-queue"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
        provision           = "{provision}"
    }}
    locks {{
        type = "{locks}"
    }}
    tables = [{tables}]
    spark {{
        master = "local[1]"
    }}
}}

router {{
    workers = 1
    source {{
        type                = "servicebus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output {{
        type                = "servicebus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    provision = "{provision}"
}}
"""


@dataclass
class Told:
    """How a command ended and what it said."""

    status: int
    text: str

    def lines(self) -> list[str]:
        """What is wrong; the first line of a stage, which says what it is about to reach, is left out."""
        return [line for line in self.text.splitlines() if line and "hint:" not in line and " starting " not in line]


class Place:
    """A configuration that works, and commands run on it; tests break one thing each."""

    def __init__(self, folder: Path, login: Login, bus: ServiceBusEmulator) -> None:
        self._path = folder / "dstream.hcl"
        self.database = login.database
        self.values = {
            "db": f"sqlserver://{login.user}:{login.password}@127.0.0.1:{login.port}?database={login.database}&encrypt=disable",
            "bus": bus.connection_string,
            "management": f"http://127.0.0.1:{bus.http_port}",
            "provision": "create",
            "locks": "local",
            "tables": '"Persons"',
        }

    def command(self, stage: str) -> list[str]:
        self._path.write_text(CONFIG.format(**self.values))
        return [sys.executable, "-m", "dstream", stage, "--config", str(self._path)]

    def run(self, stage: str) -> Told:
        """Run until it ends by itself."""
        done = subprocess.run(self.command(stage), capture_output=True, text=True, timeout=60, check=False)
        return self._told(done.returncode, done.stdout + done.stderr)

    def run_until(self, stage: str, *said: tuple[str, Callable[[], object]]) -> Told:
        """Run it, and each time that it has said the next text do what is to follow; then stop it as Kubernetes would."""
        log = self._path.with_suffix(".log")
        with log.open("wb") as output:
            process = subprocess.Popen(self.command(stage), stdout=output, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + 90
            for text, follows in said:
                while text not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, log.read_text()
                    time.sleep(0.05)
                follows()
            process.send_signal(signal.SIGTERM)
            status = process.wait(25)
        finally:
            process.kill()
            process.wait()
        return self._told(status, log.read_text())

    def _told(self, status: int, text: str) -> Told:
        assert "Traceback" not in text, text
        for secret in (SECRET, "SharedAccessKey=", "test-Password-1"):
            assert secret not in text, text
        return Told(status, text)


@pytest.fixture(scope="module")
def bus() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as emulator:
        yield emulator


@pytest.fixture
def place(tmp_path: Path, login: Login, bus: ServiceBusEmulator) -> Place:
    return Place(tmp_path, login, bus)


@pytest.fixture
def execute(login: Login) -> Iterator[Callable[[str], None]]:
    with login.connect() as connection, connection.cursor() as cursor:
        yield cursor.execute


def test_a_wrong_password(place: Place) -> None:
    place.values["db"] = place.values["db"].replace("test-Password-1", SECRET)
    told = place.run("ingester")
    assert told.status == 1
    [line] = told.lines()
    assert "login refused for user 'sa'" in line


def test_an_unknown_database(place: Place) -> None:
    place.values["db"] = place.values["db"].replace("database=", "database=no")
    told = place.run("ingester")
    assert told.status == 1
    [line] = told.lines()
    assert "cannot open database" in line


def test_an_unreachable_sql_server(place: Place) -> None:
    place.values["db"] = f"sqlserver://sa:{SECRET}@127.0.0.1:9?database=demo&encrypt=disable"
    told = place.run("ingester")
    assert told.status == 1
    [line] = told.lines()
    assert "127.0.0.1:9: the server cannot be reached" in line


def test_an_unreachable_service_bus(place: Place) -> None:
    place.values["bus"] = (
        f"Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey={SECRET};UseDevelopmentEmulator=true;"
    )
    place.values["management"] = "http://127.0.0.1:9"
    for stage in ("ingester", "router"):
        told = place.run(stage)
        assert told.status == 1
        [line] = told.lines()
        assert "127.0.0.1:9" in line


def test_a_wrong_service_bus_key(place: Place) -> None:
    place.values["bus"] = ";".join(
        f"SharedAccessKey={SECRET}" if part.startswith("SharedAccessKey=") else part
        for part in place.values["bus"].split(";")
    )
    for stage in ("ingester", "router"):
        told = place.run(stage)
        assert told.status == 1, told.text


@pytest.mark.parametrize("provision", ["none", "verify"])
@pytest.mark.parametrize("stage", ["ingester", "router"])
def test_a_missing_queue(place: Place, bus: ServiceBusEmulator, stage: str, provision: str) -> None:
    topic = f"127-0-0-1.{place.database}.persons.events"
    bus.admin.create(topic, TopicDescription(requires_duplicate_detection=True))
    bus.admin.create(f"{topic}/Subscriptions/sub1", SubscriptionDescription())
    place.values["provision"] = provision
    told = place.run(stage)
    assert told.status == 1
    [line] = [line for line in told.lines() if "[info " not in line]
    assert "ingest-queue" in line
    assert "not be found" in line or "does not exist" in line


def test_a_missing_table_and_what_is_not_under_cdc_are_warnings_with_the_statements_and_the_ingester_goes_on(
    place: Place, execute: Callable[[str], None]
) -> None:
    place.values["tables"] = '"Nowhere", "Persons"'
    execute("CREATE TABLE dbo.Persons (ID INT PRIMARY KEY)")
    told = place.run_until(
        "ingester",
        ("is off for the whole database", lambda: execute("EXEC sys.sp_cdc_enable_db")),
        ("table dbo.Persons is not under CDC", lambda: None),
    )
    assert told.status == 0
    missing, database, table = [line for line in told.lines() if "warning" in line]
    assert "table dbo.Nowhere does not exist in the database" in missing
    enables = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons'"
    assert 0 < database.index("EXEC sys.sp_cdc_enable_db") < database.index(enables)
    assert enables in table


def test_bad_hcl_names_file_and_line_and_every_problem(place: Place) -> None:
    place.values["tables"] = '"Persons", 7'
    place.values["locks"] = "lokal"
    told = place.run("ingester")
    assert told.status == 2
    assert len(told.lines()) >= 2
    assert all("dstream.hcl:" in line for line in told.lines()), told.text


def test_a_storage_account_that_cannot_be_reached(place: Place) -> None:
    place.values["locks"] = f'azure_blob"\nconnection_string = "{storage(1)}'
    told = place.run("ingester")
    assert told.status == 1
    [line] = told.lines()
    assert "looking for container 'locks': no answer from the storage account" in line


def test_a_storage_account_whose_key_is_wrong(place: Place) -> None:
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as azurite:
        text = storage(azurite.port).replace("AccountKey=Eby8", "AccountKey=Eby9")
        place.values["locks"] = f'azure_blob"\nconnection_string = "{text}'
        told = place.run("ingester")
    assert told.status == 1
    assert "looking for container 'locks': the storage account answered 403 AuthorizationFailure" in told.text
    assert "Storage Blob Data Contributor" in told.text
    assert "AccountKey" not in told.text


def test_what_is_no_storage_accounts_connection_string(place: Place) -> None:
    place.values["locks"] = f'azure_blob"\nconnection_string = "{SECRET}'
    told = place.run("ingester")
    assert told.status == 2
    assert "ingester.locks.connection_string is not a storage account's connection string" in told.text


@pytest.mark.parametrize("who", ["management", "db"])
def test_a_stop_during_the_start_waits_for_nobody_who_says_nothing(place: Place, who: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(90)
        port = mute.getsockname()[1]
        if who == "management":
            place.values["management"] = f"http://127.0.0.1:{port}"
        else:
            place.values["db"] = f"sqlserver://u:p@127.0.0.1:{port}?database=d&encrypt=disable&connection+timeout=60"
        process = subprocess.Popen(
            place.command("ingester"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            asked, _ = mute.accept()
            with asked:
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert "ingester stopped" in said
    assert "hint" not in said
    assert process.returncode == 0
