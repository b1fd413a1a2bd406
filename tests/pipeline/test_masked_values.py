"""A masked or excluded column's value occurs nowhere outside the source database.

Rows with values that occur nowhere else go all ways that rows can go: changes, before images, a stand-in, a change on which the filter fails,
a snapshot in chunks, one that fails on a value, a replay. Then everything that is not the database is searched, for several encodings and hashes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue

from common.names import Origin, TableName
from dstream.demo.processes import Service, environment
from dstream.emulators import Emulators
from tests.worlds.dump import tree
from tests.worlds.markers import Search, Watch
from tests.worlds.ports import free_ports
from tests.worlds.world import wait_until

DATABASE = "clinic"
PATIENTS = TableName("dbo", "Patients")
ORIGIN = Origin("localhost", DATABASE)
TOPIC = ORIGIN.topic(PATIENTS)
SALT = "salt-of-the-clinic"
ROWS = 9
"""From before the capture; in chunks of two, whose bounds are keys."""
SHOWN = "shown-on-purpose-4711"
TOO_LARGE = 300_000

CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{{{{ env("DSTREAM_DB_CONNECTION_STRING") }}}}"
    poll_interval_defaults {{
        poll_interval     = "200ms"
        max_poll_interval = "500ms"
    }}
    queue {{
        type                = "servicebus"
        name                = "ingest-queue"
        connection_string   = "{{{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "local"
    }}
    tables        = ["Patients"]
    before_images = true
    on_oversize   = "dead_letter"
    snapshot {{
        mode       = "initial"
        chunk_rows = 2
    }}
    tables_overrides {{
        overrides {{
            table_name      = "Patients"
            exclude_columns = ["Note", "Scan"]
            mask            = {{ Ssn = "hash:SHA-256:{{{{ env("SALT") }}}}", email = "redact" }}
            filter          = "data.Weight > 0"
            on_filter_error = "dead_letter"
        }}
    }}
    health {{
        port = {ingester}
        host = "127.0.0.1"
    }}
    spark {{
        master = "local[2]"
    }}
}}

router {{
    workers = 1
    source {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    output {{
        connection_string   = "{{{{ env("DSTREAM_PUBLISHER_CONNECTION_STRING") }}}}"
        management_endpoint = "{management}"
    }}
    health {{
        port = {router}
        host = "127.0.0.1"
    }}
}}
"""


def hidden(number: int, version: str = "") -> list[tuple[str, str]]:
    """The values of a row that must not get out, and their columns."""
    return [
        (f"ssn-of-patient-{number:04}", "Ssn"),
        (f"mail{number:04}{version}@clinic.example", "Email"),
        (f"note-about-{number:04}{version}-in-private", "Note"),
        (f"scan-of-{number:04}{version}-x-ray", "Scan"),
    ]


class Clinic:
    """The emulators with one table, an ingester and a router with everything they write, and the commands."""

    def __init__(self, folder: Path, emulators: Emulators, opened: ExitStack) -> None:
        self._folder, self.emulators = folder, emulators
        self._cursor = opened.enter_context(opened.enter_context(emulators.login.connect()).cursor())
        self.scratch = folder / "tmp"
        self.scratch.mkdir()
        self.watch = Watch(self.scratch)
        self.config = folder / "dstream.hcl"
        self.ports = free_ports(2)
        self.config.write_text(
            CONFIG.format(management=emulators.management_endpoint, ingester=self.ports[0], router=self.ports[1])
        )
        self._variables = {
            **environment(emulators),
            "SALT": SALT,
            "TMPDIR": str(self.scratch),
            "DSTREAM_LOG_LEVEL": "debug",
            **self.watch.variables,
        }
        self.places: dict[str, bytes] = {}
        """Everything that was looked at, by where it was."""
        self.ingester = Service("ingester", self.config, self._variables, folder / "ingester.log")
        self.router = Service("router", self.config, self._variables, folder / "router.log")

    def make_table(self) -> None:
        self.execute(
            "CREATE TABLE dbo.Patients (Ssn NVARCHAR(40) NOT NULL PRIMARY KEY, Name NVARCHAR(60), EMail NVARCHAR(200), "
            "Note NVARCHAR(200), Scan VARBINARY(200), Body VARCHAR(MAX), Weight INT)"
        )
        for number in range(1, ROWS + 1):
            self.insert(number)
        self.execute("EXEC sp_configure 'max text repl size (B)', -1")
        self.execute("RECONFIGURE")
        self.execute("EXEC sys.sp_cdc_enable_db")
        self.execute(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Patients', @role_name = NULL"
        )

    def insert(self, number: int, *, body: int = 10, weight: int | None = 70) -> None:
        ssn, mail, note, scan = (value for value, _ in hidden(number))
        self.execute(
            "INSERT INTO dbo.Patients VALUES (%s, %s, %s, %s, CONVERT(varbinary(200), %s), %s, %d)"
            if weight is not None
            else "INSERT INTO dbo.Patients VALUES (%s, %s, %s, %s, CONVERT(varbinary(200), %s), %s, NULL)",
            *(ssn, f"{SHOWN} {number}", mail, note, scan, "x" * body, *([] if weight is None else [weight])),
        )

    def update(self, number: int) -> None:
        ssn, mail, note, _ = (value for value, _ in hidden(number, "-new"))
        self.execute("UPDATE dbo.Patients SET EMail = %s, Note = %s WHERE Ssn = %s", mail, note, ssn)

    def delete(self, number: int) -> None:
        self.execute("DELETE FROM dbo.Patients WHERE Ssn = %s", hidden(number)[0][0])

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        self._cursor.execute(sql, values or None)
        return list(self._cursor.fetchall()) if self._cursor.description else []

    def snapshots(self) -> dict[str, str]:
        """The state of each, by why it was taken."""
        if self.execute("SELECT OBJECT_ID(N'dbo.cdc_snapshots')")[0][0] is None:
            return {}
        return dict(self.execute("SELECT reason, state FROM dbo.cdc_snapshots"))

    def run(self, *commands: Sequence[str]) -> None:
        """`dstream` with each of these, at the same time; what they print is searched."""
        begun = [
            subprocess.Popen(
                [sys.executable, "-m", "dstream", *command, "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._variables},
            )
            for command in commands
        ]
        for command, process in zip(commands, begun, strict=True):
            self.places[f"dstream {' '.join(command)}"] = process.communicate(timeout=120)[0]

    def look_at_processes(self) -> None:
        for service in (self.ingester, self.router):
            for pid in tree(service.pid):
                for name in ("cmdline", "environ"):
                    with suppress(OSError):
                        self.places[f"/proc {service.stage} {pid} {name}"] = Path(f"/proc/{pid}/{name}").read_bytes()
        for stage, port in zip(("ingester", "router"), self.ports, strict=True):
            for page in ("metrics", "healthz", "readyz"):
                with (
                    suppress(urllib.error.HTTPError),
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}") as said,
                ):
                    self.places[f"{stage} /{page}"] = said.read()

    def look_at_queue(self) -> list[ServiceBusReceivedMessage]:
        with (
            ServiceBusClient.from_connection_string(self.emulators.bus_connection_string) as client,
            client.get_queue_receiver("ingest-queue", session_id=TOPIC) as receiver,
        ):
            return receiver.peek_messages(250)

    def dead_letters(self) -> list[ServiceBusReceivedMessage]:
        with (
            ServiceBusClient.from_connection_string(self.emulators.bus_connection_string) as client,
            client.get_queue_receiver("ingest-queue", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver,
        ):
            return receiver.peek_messages(250)

    def arrived(self, topic: str) -> list[ServiceBusReceivedMessage]:
        with (
            ServiceBusClient.from_connection_string(self.emulators.bus_connection_string) as client,
            client.get_subscription_receiver(topic, "sub1") as receiver,
        ):
            return receiver.peek_messages(250)

    def keep(self, where: str, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        for number, message in enumerate(messages):
            self.places[f"{where} {number}, body"] = b"".join(message.body)
            self.places[f"{where} {number}, all else"] = repr(message.raw_amqp_message).encode() + str(message).encode()


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Clinic]:
    with ExitStack() as opened, Emulators(database=DATABASE, capture_interval=0.3) as emulators:
        made = Clinic(tmp_path, emulators, opened)
        opened.enter_context(made.watch.watching())
        try:
            yield made
        finally:
            made.router.stop()
            made.ingester.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.timeout(300)
def test_values_that_are_masked_or_left_out_are_found_nowhere(clinic: Clinic) -> None:
    clinic.make_table()
    clinic.insert(11)
    clinic.update(11)
    clinic.insert(12)
    clinic.delete(12)
    clinic.insert(13, body=TOO_LARGE)
    clinic.insert(14, weight=None)
    clinic.ingester.start()
    clinic.run(["snapshot", "start", "Patients", "--where", "EMail = 5"])  # while Spark starts
    wait_until(lambda: clinic.snapshots() == {"initial": "done", "asked": "failed"}, "all rows were read, or refused")
    clinic.keep("queue", clinic.look_at_queue())
    clinic.router.start()
    wait_until(lambda: len(clinic.dead_letters()) >= 4, "both too large and both without a weight are there")
    wait_until(lambda: b"slices go there from now on" in clinic.ingester.log.read_bytes(), "Spark has started")
    clinic.insert(15)
    clinic.update(15)
    wait_until(lambda: len(clinic.arrived(TOPIC)) == ROWS + 7, "changes that Spark's slices read are there as well")
    begin = clinic.execute("SELECT CONVERT(VARCHAR(22), MIN(start_lsn), 1) FROM cdc.change_tables")[0][0]
    clinic.look_at_processes()
    clinic.run(
        ["replay", "Patients", "--from", begin, "--to-topic", "patients.again"],
        ["status"],
        ["snapshot", "list"],
        ["doctor"],
    )
    clinic.keep("dead letter", clinic.dead_letters())
    clinic.keep("topic", clinic.arrived(TOPIC))
    clinic.keep("replayed", clinic.arrived("patients.again"))
    assert (clinic.router.stop(), clinic.ingester.stop()) == (0, 0)
    clinic.places["log of the ingester"] = clinic.ingester.log.read_bytes()
    clinic.places["log of the router"] = clinic.router.log.read_bytes()
    places = {**clinic.places, **clinic.watch.files()}

    numbers = [*range(1, ROWS + 1), *range(11, 16)]
    planted = [value for number in numbers for value in (*hidden(number), *hidden(number, "-new"))]
    assert Search(planted).found(places) == []
    with_salt = {
        place for place, content in places.items() if SALT.encode() in content and not place.endswith("environ")
    }
    assert with_salt == set()

    # Everything was there to be found.
    shown = {place.split(" ")[0] for place, content in places.items() if SHOWN.encode() in content}
    assert shown == {"queue", "topic", "replayed", "dead"}, "the search sees what is not masked"
    sent = [content for place, content in places.items() if place.startswith("topic") and place.endswith(", body")]
    assert sum(b'"Read"' in body for body in sent) == ROWS + 1
    assert sum(b'"before"' in body for body in sent) == 3, "of the updates and the delete"
    passed_by = {name: content for name, content in clinic.watch.removed().items() if "pyspark-" in name}
    assert any(passed_by.values()), "files of PySpark's were seen"
    assert set(passed_by.values()) <= set(places.values()), "and they were searched"
    assert b"245" in clinic.places["dstream snapshot list"], "the server named a value"
