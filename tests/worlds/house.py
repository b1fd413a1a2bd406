"""A house with tables whose rows are older than their capture: both emulators, the router and the ingester as processes, an application that
changes the rows, and a subscriber that keeps a copy of them.

What the application did, what the tables hold and what the subscriber was sent are compared by `Copy`. Nothing here knows how a snapshot is taken.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Self

import orjson

from common.names import Origin, TableName, server_label
from dstream.demo.processes import Service
from dstream.demo.subscriber import Subscriber
from dstream.demo.verdict import Received
from dstream.emulators import Bus, Emulators, Login
from tests.worlds.dump import tree
from tests.worlds.world import signal_tree, wait_until

DATABASE: Final = "house"
ORIGIN: Final = Origin(server_label("localhost"), DATABASE)
PERSONS, OTHERS, QUIET = (TableName("dbo", name) for name in ("Persons", "Others", "Quiet"))
"""PERSONS and OTHERS are changed by the application, QUIET is not."""
COLUMNS: Final = ("Id", "Name", "Amount", "Version")
_CREATE: Final = (
    "(Id INT NOT NULL PRIMARY KEY, Name NVARCHAR(60) NULL, Amount DECIMAL(18,4) NULL, Version INT NOT NULL)"
)
_A_STATEMENT: Final = 500
_ROOM: Final = 1_000_000
"""Ids and Versions of rows that the application inserts begin here."""

_CONFIG: Final = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    poll_interval_defaults {{
        poll_interval     = "200ms"
        max_poll_interval = "1s"
    }}
    queue {{
        type                = "azure_service_bus"
        name                = "ingest-queue"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    locks {{
        type = "sqlserver"
    }}
    snapshot {{
        {snapshot}
    }}
    tables = [{tables}]
    {more}
    spark {{
        master = "local[{tasks}]"
    }}
}}
router {{
    workers = 1
    source {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
    output {{
        type                = "azure_service_bus"
        connection_string   = "{bus}"
        management_endpoint = "{management}"
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change of a row, as a subscriber is to see it."""

    operation: str
    id: int
    version: int
    at: float

    @property
    def identity(self) -> tuple[str, int, int]:
        return self.operation, self.id, self.version


class Application:
    """Changes the rows of one table, in transactions of up to three statements, `rate` transactions a second, until it is stopped.

    `ids`: those of the rows that are there already; their Version is their Id.
    """

    def __init__(self, login: Login, table: TableName, ids: range, *, rate: float, seed: int) -> None:
        self._login, self._table, self._pause = login, table, 1 / rate
        self._random = Random(seed)
        self._versions = {id: id for id in ids}
        self._ids = list(ids)
        self._next = _ROOM
        self._stop = threading.Event()
        self._turn = threading.Lock()
        """Held during a transaction, and while it is halted."""
        self._thread = threading.Thread(target=self._run, name=f"application {table.key}", daemon=True)
        self._error: Exception | None = None
        self.committed: list[Change] = []

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Returns between two transactions; none begins until `go_on`."""
        self._turn.acquire()

    def go_on(self) -> None:
        self._turn.release()

    def stop(self) -> None:
        """Returns when its last transaction is committed. Raises what ended it early."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(120)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with self._login.connect() as connection, connection.cursor() as cursor:
                while not self._stop.wait(self._pause):
                    with self._turn:
                        self._transaction(cursor)
        except Exception as error:
            self._error = error

    def _transaction(self, cursor: Any) -> None:
        done: list[tuple[str, int, int]] = []
        statements = [self._statement(done) for _ in range(self._random.randint(1, 3))]
        cursor.execute("BEGIN TRANSACTION; " + "; ".join(statements) + "; COMMIT TRANSACTION")
        self.committed += [Change(*change, time.time()) for change in done]

    def _statement(self, done: list[tuple[str, int, int]]) -> str:
        chance, table = self._random.random(), self._table.quoted
        self._next += 1
        new = self._next
        if chance < 0.15 or not self._ids:
            self._keep(new, new)
            done.append(("Insert", new, new))
            return f"INSERT INTO {table} VALUES ({new}, N'new {new}', {new % 97}.5, {new})"
        at = self._random.randrange(len(self._ids))
        id = self._ids[at]
        if chance < 0.3:
            self._ids[at] = self._ids[-1]
            self._ids.pop()
            done.append(("Delete", id, self._versions.pop(id)))
            return f"DELETE FROM {table} WHERE Id = {id}"
        self._versions[id] = new
        done.append(("Update", id, new))
        return f"UPDATE {table} SET Name = N'changed {new}', Version = {new} WHERE Id = {id}"

    def _keep(self, id: int, version: int) -> None:
        self._ids.append(id)
        self._versions[id] = version


@dataclass
class Copy:
    """What a consumer has that applies every message by key, in the order of arrival; and what it noticed.

    `reads`: by snapshot, the EventIDs of rows in the order of arrival. `changes`: each once, in the order of its first arrival. `again`: rows of
    snapshots that came once more. `types`: every OperationType. `last`: the snapshots that said that nothing follows.
    """

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    reads: dict[str, list[str]] = field(default_factory=dict)
    changes: list[tuple[str, int, int]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    gaps: list[dict[str, str]] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    again: int = 0
    _known: set[str] = field(default_factory=set)

    def apply(self, message: Received) -> None:
        body = orjson.loads(message.body)
        metadata, data = body["metadata"], body["data"]
        kind, event = metadata["OperationType"], metadata["EventID"]
        first = event not in self._known
        self._known.add(event)
        self.types.append(kind)
        if kind == "Gap":
            self.gaps.append(metadata["Gap"])
            return
        if kind == "Read":
            self.reads.setdefault(metadata["Snapshot"]["Id"], []).append(event)
            self.again += not first
            if metadata["Snapshot"]["Last"]:
                self.last.append(metadata["Snapshot"]["Id"])
        elif first:
            self.changes.append((kind, data["Id"], data["Version"]))
        self.rows.pop(body.get("before", data)["Id"], None)
        if kind != "Delete":
            self.rows[data["Id"]] = data


class House:
    """Everything but the ingester runs on entering; the application waits for `begin`.

    `rows`: of PERSONS, from before its capture; the other tables have `others`. `snapshot`, `more`: settings of the ingester. `duplicates`: whether
    queue and topics drop what comes twice. `credits`: of the namespace a second. `faults`: of SQL Server; `emulators.begin_faults` begins
    them. `rate`: transactions a second of each table that is changed.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rows: int,
        snapshot: str,
        others: int = 200,
        more: str = "",
        tasks: int = 2,
        duplicates: bool = True,
        credits: int | None = None,
        faults: Sequence[str] = (),
        rate: float = 20.0,
        seed: int = 1,
    ) -> None:
        self._folder, self._snapshot, self._more, self._tasks, self._rate = folder, snapshot, more, tasks, rate
        self._sizes = {PERSONS: rows, OTHERS: others, QUIET: others}
        self._seed = seed
        config = None if duplicates else _plain_entities(folder / "entities.json")
        self.emulators = Emulators(
            database=DATABASE, capture_interval=0.3, faults=faults, bus=Bus(config=config, credits_per_second=credits)
        )
        self.config = folder / "dstream.hcl"
        self.ingesters: list[Service] = []

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self.emulators)
            self.login = self.emulators.login
            client = opened.enter_context(self.login.connect())
            self._cursor = opened.enter_context(client.cursor())
            self._make_tables()
            self._write_config()
            opened.callback(self._stop_services)
            self.router = Service("router", self.config, {}, self._folder / "router.log")
            self.router.start()
            self.subscriber = self._subscribe({table: ORIGIN.topic(table) for table in self._sizes}, opened)
            self.applications = {
                table: Application(self.login, table, self.ids(table), rate=self._rate, seed=self._seed + number)
                for number, table in enumerate((PERSONS, OTHERS))
            }
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        try:
            with suppress(Exception):
                self.settle_down()
            if kind is not None:
                print(self.told(), flush=True)
        finally:
            self._opened.close()

    def ids(self, table: TableName) -> range:
        """Of the rows from before."""
        return range(1, self._sizes[table] + 1)

    def _make_tables(self) -> None:
        """The rows first, then their capture."""
        for table, rows in self._sizes.items():
            self._cursor.execute(f"CREATE TABLE {table.quoted} {_CREATE}")
            seed = min(rows, _A_STATEMENT)
            values = ", ".join(f"({id}, N'name {id}', {id}.25, {id})" for id in range(1, seed + 1))
            self._cursor.execute(f"INSERT INTO {table.quoted} VALUES {values}")
            while seed < rows:
                more = min(seed, rows - seed)
                self._cursor.execute(
                    f"INSERT INTO {table.quoted} SELECT Id + {seed}, Name, Amount, Id + {seed} FROM {table.quoted} WHERE Id <= {more}"
                )
                seed += more
        self._cursor.execute("EXEC sys.sp_cdc_enable_db")
        for table in self._sizes:
            self._cursor.execute(
                f"EXEC sys.sp_cdc_enable_table @source_schema = N'{table.schema}', @source_name = N'{table.table}', @role_name = NULL"
            )

    def _write_config(self) -> None:
        self.config.write_text(
            _CONFIG.format(
                db=self.emulators.db_connection_string,
                bus=self.emulators.bus_connection_string,
                management=self.emulators.management_endpoint,
                snapshot=self._snapshot,
                tables=", ".join(json.dumps(table.key) for table in self._sizes),
                more=self._more,
                tasks=self._tasks,
            )
        )

    def _subscribe(self, topics: dict[TableName, str], opened: ExitStack) -> Subscriber:
        subscriber = Subscriber(self.emulators.bus_connection_string, topics)
        subscriber.start()
        opened.callback(subscriber.stop)
        return subscriber

    def subscribe(self, table: TableName, topic: str) -> Subscriber:
        """One more, of another topic that gets rows of `table`."""
        return self._subscribe({table: topic}, self._opened)

    # the application

    def begin(self) -> None:
        for application in self.applications.values():
            application.start()

    def settle_down(self) -> None:
        """The application has committed its last change."""
        for application in self.applications.values():
            application.stop()

    # the ingester

    @property
    def ingester(self) -> Service:
        """The youngest."""
        return self.ingesters[-1]

    def start_ingester(self) -> Service:
        """Returns at once."""
        self.ingesters.append(
            Service("ingester", self.config, {}, self._folder / f"ingester-{len(self.ingesters)}.log")
        )
        self.ingester.start()
        return self.ingester

    def kill_ingester(self) -> None:
        """With its JVM and its workers, as a machine that loses power."""
        signal_tree(self.ingester.pid, signal.SIGKILL)
        self.ingester.kill()

    def workers(self) -> list[int]:
        """The Python processes that run tasks: the children of Spark's daemon."""
        found = [pid for pid in tree(self.ingester.pid) if b"pyspark.worker" in _command(pid)]
        return [pid for pid in found if _parent(pid) in found]

    def _stop_services(self) -> None:
        for service in (*self.ingesters, self.router):
            service.stop()

    def alive(self) -> bool:
        """Raises AssertionError with the end of the log if the ingester or the router has ended by itself."""
        for service in (self.ingester, self.router):
            assert service.died() is None, f"{service.stage} ended by itself:\n{service.tail(30)}"
        return True

    # snapshots

    def dstream(self, *arguments: str, status: int = 0) -> str:
        """What `dstream snapshot ...` and its like print."""
        done = subprocess.run(
            [sys.executable, "-m", "dstream", *arguments, "--config", str(self.config)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def asked(self, table: TableName, *more: str) -> str:
        """Asks for a snapshot. Returns its id."""
        said = self.dstream("snapshot", "start", table.key, *more)
        return said.rpartition("id:")[2].split()[0]

    def snapshots(self) -> dict[str, dict[str, Any]]:
        """By id, as the store has them; `fenced`: whether something of it may be sent now."""
        self._cursor.execute("SELECT OBJECT_ID(N'dbo.cdc_snapshots')")
        if self._cursor.fetchone()[0] is None:
            return {}
        self._cursor.execute(
            "SELECT id, table_name, state, row_count, chunks, rounds, attempt, error, "
            "CASE WHEN fenced_until > SYSUTCDATETIME() THEN 1 ELSE 0 END FROM dbo.cdc_snapshots ORDER BY asked_at"
        )
        names = ("id", "table", "state", "rows", "chunks", "rounds", "attempt", "error", "fenced")
        return {row[0]: dict(zip(names, row, strict=True)) for row in self._cursor.fetchall()}

    def snapshot_of(self, table: TableName) -> dict[str, Any]:
        """The youngest of `table`; without any, one that has sent nothing."""
        found = [each for each in self.snapshots().values() if each["table"] == table.key]
        return found[-1] if found else {"id": "", "state": "none", "rows": 0, "rounds": 0, "chunks": 0, "fenced": 0}

    def await_state(self, snapshot: str, state: str, timeout: float = 120) -> None:
        wait_until(lambda: self.alive() and self.snapshots()[snapshot]["state"] == state, f"it is {state}", timeout)

    def await_rows(self, table: TableName, rows: int, timeout: float = 120) -> None:
        """So many rows of its youngest snapshot are recorded."""
        what = f"{rows} rows of {table.key} are sent"
        wait_until(lambda: self.alive() and self.snapshot_of(table)["rows"] >= rows, what, timeout)

    def lower_the_fence(self) -> None:
        """As whoever knows that nothing of a dead ingester is left: the next one need not wait."""
        self._cursor.execute("UPDATE dbo.cdc_snapshots SET fenced_until = NULL")

    def execute(self, statement: str) -> Any:
        """By an administrator; the first row, if there is one."""
        self._cursor.execute(statement)
        return self._cursor.fetchone() if self._cursor.description else None

    # the verdict

    def table(self, table: TableName) -> dict[int, dict[str, Any]]:
        """The rows, as a subscriber is to have them."""
        self._cursor.execute(f"SELECT {', '.join(COLUMNS)} FROM {table.quoted}")
        return {
            row[0]: dict(
                zip(COLUMNS, (row[0], row[1], None if row[2] is None else format(row[2], "f"), row[3]), strict=True)
            )
            for row in self._cursor.fetchall()
        }

    def copy(self, table: TableName, subscriber: Subscriber | None = None) -> Copy:
        found = Copy()
        for message in (subscriber or self.subscriber).received()[table]:
            found.apply(message)
        return found

    def counts(self) -> dict[TableName, int]:
        """Messages of each table so far, whatever they are about."""
        return {table: len(found) for table, found in self.subscriber.received().items()}

    def arrived(self, timeout: float = 120) -> None:
        """Everything that was committed and read has arrived: call it when the application has settled down and snapshots are over."""
        wanted = {table: {each.identity for each in made.committed} for table, made in self.applications.items()}

        def all_there() -> bool:
            return self.alive() and all(wanted[table] <= set(self.copy(table).changes) for table in wanted)

        wait_until(all_there, "all changes have arrived", timeout)
        quiet = self.counts()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            time.sleep(1.5)
            if (now := self.counts()) == quiet:
                return
            quiet = now
        raise AssertionError(f"messages do not end: {quiet}")

    def judge(self, tables: Sequence[TableName], changed: Sequence[TableName] = ()) -> dict[TableName, Copy]:
        """A consumer that applies by key has the rows of `tables`, and every change came, in order; of `changed`, all of whose rows nobody sent,
        the latter. Raises AssertionError."""
        copies = {table: self.copy(table) for table in (*tables, *changed)}
        for table, copy in copies.items():
            held, differ = self.table(table) if table in tables else copy.rows, []
            for id in held.keys() | copy.rows.keys():
                if held.get(id) != copy.rows.get(id):
                    differ.append((id, held.get(id), copy.rows.get(id)))
            assert not differ, f"{table.key}: {len(differ)} rows differ, such as {sorted(differ)[:3]}"
            if table in self.applications:
                made = [each.identity for each in self.applications[table].committed]
                assert copy.changes == made, f"{table.key}: {_difference(made, copy.changes)}"
        return copies

    def lags(self, table: TableName, since: float, until: float = math.inf) -> list[float]:
        """Seconds from the commit of each change to its first arrival, ascending; of changes that were committed in this time."""
        arrivals: dict[tuple[str, int, int], float] = {}
        for message in self.subscriber.received()[table]:
            body = orjson.loads(message.body)
            if body["metadata"]["OperationType"] in ("Insert", "Update", "Delete"):
                kind, data = body["metadata"]["OperationType"], body["data"]
                arrivals.setdefault((kind, data["Id"], data["Version"]), message.at)
        committed = [each for each in self.applications[table].committed if since <= each.at < until]
        return sorted(arrivals[each.identity] - each.at for each in committed if each.identity in arrivals)

    def told(self) -> str:
        """What can be told of a house in which something is missing."""
        tails = "\n".join(f"-- {each.log.name}\n{each.tail(25)}" for each in (*self.ingesters[-3:], self.router))
        with suppress(Exception):
            tails = f"{self.snapshots()}\n{tails}"
        return f"received {self.counts()}\n{tails}"


def _difference(made: Sequence[Any], seen: Sequence[Any]) -> str:
    lost, more = set(made) - set(seen), set(seen) - set(made)
    if lost or more:
        return f"{len(lost)} changes lost, such as {sorted(lost)[:3]}; {len(more)} too many, such as {sorted(more)[:3]}"
    at = next(number for number, (one, two) in enumerate(zip(made, seen, strict=True)) if one != two)
    return f"out of order from change {at} on: {made[at : at + 3]} came as {seen[at : at + 3]}"


def _plain_entities(path: Path) -> Path:
    """Queue and topics without duplicate detection."""
    day = {"DefaultMessageTimeToLive": "P1D"}
    queue = {"Name": "ingest-queue", "Properties": {**day, "RequiresSession": True, "MaxDeliveryCount": 10}}
    topics = [
        {
            "Name": ORIGIN.topic(table),
            "Properties": day,
            "Subscriptions": [{"Name": "sub1", "Properties": {**day, "MaxDeliveryCount": 10}}],
        }
        for table in (PERSONS, OTHERS, QUIET)
    ]
    config = {
        "Namespaces": [{"Name": "sbemulatorns", "Queues": [queue], "Topics": topics}],
        "Logging": {"Type": "File"},
    }
    path.write_text(json.dumps({"UserConfig": config}))
    return path


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
