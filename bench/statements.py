"""What each statement that the product sends most costs SQL Server's emulator: microseconds of its processor time.

    .venv/bin/python -m bench.statements [DIRECTORY ...] [--times 200] [--rounds 5]

DIRECTORY: a checkout whose emulator is measured; with two, the emulators take turns statement by statement, and a column says how the second
compares with the first. Without one it is this one's. The product of this checkout works against each of them for a while: it looks at the
tables, probes, reads pages and moves offsets, while an application writes, and what the emulator receives is noted. Then the texts that came
most often are sent again, one at a time over one connection. A text that comes with other values each time is a new text each time here, too.
Medians of the rounds; the last line is JSON. Nothing of this says anything about SQL Server's speed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any, Final, Self

from bench.ingestion.ground import COLUMNS, sql_address
from common.names import TableName
from dstream.emulators import Login
from ingester.source import PageQuery, ProbeRequest
from ingester.sqlserver.connection import END, Connection
from ingester.sqlserver.offsets import SqlServerOffsets
from ingester.sqlserver.source import SqlServerSource

_USER, _PASSWORD, _DATABASE = "sa", "bench-Password-1", "asked"
_TABLES: Final = [TableName("dbo", f"Orders{n}") for n in range(3)]
_PASSES: Final = 12
_MOST: Final = 20
_LITERAL = re.compile(r"0x[0-9a-f]*|'(?:[^']|'')*'|\b\d+\b", re.IGNORECASE)
_INNER = re.compile(r"sp_executesql\s+N'((?:[^']|'')*)'", re.IGNORECASE)
Text = Callable[[int], str]
"""Of a statement, for the number of its turn."""
_SERVER = f"""
import json, sys, time
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
sent = []
engine = build_engine(users={{{_USER!r}: {_PASSWORD!r}}}, databases=[{_DATABASE!r}], capture_interval=3600)
with SqlServerEmulator(engine, statement_log=lambda text: sent.append(text) if sent is not None else None) as server:
    print(server.port, flush=True)
    for line in sys.stdin:
        print(json.dumps(time.process_time() if line.strip() == "time" else sent), flush=True)
        sent = None if line.strip() == "sent" else sent
engine.close()
"""


class _Server:
    """The emulator of a checkout, as a process. It ends with its standard input."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.login = Login("127.0.0.1", int(self._line()), _USER, _PASSWORD, _DATABASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def ask(self, what: str) -> Any:
        """`time`: seconds of its processor time so far. `sent`: what it has received; from then on nothing is noted."""
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return json.loads(self._line())


def ingest(login: Login) -> set[str]:
    """What an ingester does in some passes over three tables while an application writes; returns the application's texts."""
    address = sql_address(login)
    source, offsets = SqlServerSource(Connection(address)), SqlServerOffsets(Connection(address))
    with closing(_Application(login)) as application, closing(source), closing(offsets):
        for table in _TABLES:
            application.send(f"CREATE TABLE {table.quoted} ({COLUMNS})")
            application.send(f"EXEC sys.sp_cdc_enable_table N'{table.schema}', N'{table.table}', @role_name = NULL")
        offsets.ensure()
        instances = {table: state.instances[0] for table, state in source.states(_TABLES).items()}
        places = {table: instance.start for table, instance in instances.items()}
        claimed = {table: offsets.claim(table, 1).position for table in _TABLES}
        for number in range(_PASSES):
            for table in _TABLES:
                application.send(insert(table, number))
            application.send("EXEC sys.sp_cdc_scan")
            source.states(_TABLES)
            upto = source.probe([ProbeRequest(instances[table], places[table]) for table in _TABLES]).upto
            assert upto is not None
            source.probe([ProbeRequest(instances[table], upto) for table in _TABLES])
            for table in _TABLES:
                while (end := source.page(PageQuery(instances[table], places[table], upto, rows=10)).end) is not None:
                    offsets.commit(table, 1, seen=claimed[table], position=end)
                    places[table] = claimed[table] = end
        return application.texts


class _Application:
    """An application that writes to the tables. `texts`: the statements that it has sent."""

    def __init__(self, login: Login) -> None:
        self._connection = login.connect()
        self._cursor = self._connection.cursor()
        self.texts: set[str] = set()
        self.send("EXEC sys.sp_cdc_enable_db")

    def send(self, text: str) -> None:
        self.texts.add(text)
        self._cursor.execute(text)

    def close(self) -> None:
        self._connection.close()


def insert(table: TableName, number: int) -> str:
    """A row of the mixed columns."""
    return (
        f"INSERT INTO {table.quoted} VALUES ({number}, {number * 7919}, N'name {number}', 'code-{number}', {number}.1234, "
        f"{number}.5, {number}.25e0, '2026-11-21T10:00:00.1234567', '6F9619FF-8B86-D011-B42D-{number:012X}', 1)"
    )


_APPLICATION: Final[dict[str, Text]] = {
    "INSERT of a row": lambda number: insert(_TABLES[0], _PASSES + number),
    "UPDATE by key": lambda number: f"UPDATE dbo.Orders1 SET Name = N'other {number}' WHERE Id = {number % _PASSES}",
    "SELECT by key": lambda number: f"SELECT Name, Amount FROM dbo.Orders1 WHERE Id = {number % _PASSES}",
    "DELETE by key": lambda number: f"DELETE FROM dbo.Orders0 WHERE Id = {_PASSES + number}",
    "BEGIN, UPDATE by key, COMMIT": lambda number: (
        f"BEGIN TRANSACTION; UPDATE dbo.Orders1 SET Name = N'other {number}' WHERE Id = {number % _PASSES}; COMMIT TRANSACTION"
    ),
}
"""What applications send most, beside the product's own. Its numbers begin with 1."""


def shape(text: str) -> str:
    """The same for texts that differ in their values and tables alone. Of sp_executesql it is the text inside: its values follow it."""
    text = text.replace(END, "")
    inner = _INNER.search(text)
    return " ".join((inner[1] if inner else re.sub(r"Orders\d", "Orders", _LITERAL.sub("?", text))).split())


def recorded(server: _Server) -> dict[str, Text]:
    """The product's most frequent statements by shape, then the application's."""
    theirs = ingest(server.login)
    texts: dict[str, list[str]] = defaultdict(list)
    for text in server.ask("sent"):
        if text not in theirs:
            texts[shape(text)].append(text)
    often = sorted(texts, key=lambda each: -len(texts[each]))[:_MOST]
    return {each: _again(texts[each]) for each in often} | _APPLICATION


def _again(texts: Sequence[str]) -> Text:
    """The last of them; with a number, where they came with other values each time."""
    text, varies = texts[-1], len(set(texts)) > len(texts) / 4
    return lambda number: f"{text} /*{number}*/" if varies else text


def cost(server: _Server, cursor: Any, text: Text, numbers: range) -> float:
    """Microseconds of processor time a statement."""
    before = server.ask("time")
    for number in numbers:
        cursor.execute(text(number))
        while cursor.description is not None:
            cursor.fetchall()
            if not cursor.nextset():
                break
    return float((server.ask("time") - before) / len(numbers) * 1e6)


def compared(
    servers: Sequence[_Server], cursors: Sequence[Any], texts: Sequence[Text], times: int, rounds: int
) -> list[list[float]]:
    """What one statement costs each server, in each round."""
    costs: list[list[float]] = [[] for _ in servers]
    for round_ in range(rounds + 1):
        numbers = range(round_ * times + 1, (round_ + 1) * times + 1)
        for server, cursor, text, seen in zip(servers, cursors, texts, costs, strict=True):
            seen.append(cost(server, cursor, text, numbers))
    return [seen[1:] for seen in costs]  # the first warms up: plans are made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directories", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="a regular expression for the statements")
    chosen = parser.parse_args()
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        servers = [stack.enter_context(_Server(each)) for each in chosen.directories]
        statements = [recorded(server) for server in servers]
        cursors = [stack.enter_context(stack.enter_context(each.login.connect()).cursor()) for each in servers]
        for each in filter(re.compile(chosen.only).search, statements[0]):
            costs = compared(servers, cursors, [mine[each] for mine in statements], chosen.times, chosen.rounds)
            found[each] = [round(figure(seen)) for seen in costs for figure in (median, min)]
            _show(found[each], each)
    _show([sum(values) for values in zip(*found.values(), strict=True)], "all")
    print(json.dumps(found))


def _show(figures: Sequence[float], name: str) -> None:
    """Median and minimum of each server, and how the last median compares with the first."""
    ratio = f"{figures[-2] / figures[0]:6.2f}" if len(figures) > 2 else ""
    print(*(f"{value:6}" for value in figures), ratio, f" {name[:120]}", flush=True)


if __name__ == "__main__":
    main()
