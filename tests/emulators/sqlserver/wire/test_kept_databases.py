"""SIGKILL of the SQL Server emulator in the middle of writes: what it answered is there after a restart, and nothing by halves.

Each round starts the program on the same directory and has clients insert, update, move keys, delete, define and switch capture on and
off, until it is killed at a random moment. What a client asked for without an answer may have happened or not.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymssql
import pytest

PASSWORD = "a-Password-1"
_PATIENCE = 60.0
_WRITERS = ("a", "b", "c")
_COMMITS = 3
"""Commits that each writer has made before the kill."""


class Program:
    """The emulator as a process on a directory."""

    def __init__(self, data: Path, *more: str) -> None:
        command = [sys.executable, "-m", "emulators.sqlserver", "--port", "0", "--password", PASSWORD, "--json"]
        command += ["--capture-interval", "0.02", "--data-dir", str(data), *more]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        announcement = self._process.stdout.readline()
        assert announcement, self._process.communicate()[1]
        self.port = int(json.loads(announcement)["port"])

    def kill(self) -> None:
        self._process.kill()
        assert self._process.communicate(timeout=30)[1] == ""

    @contextmanager
    def connected(self, database: str = "demo") -> Iterator[Any]:
        made = pymssql.connect(
            "127.0.0.1", "sa", PASSWORD, database, port=str(self.port), autocommit=True, timeout=30, login_timeout=30
        )
        with closing(made), made.cursor() as cursor:
            yield cursor


@contextmanager
def running(data: Path, *more: str) -> Iterator[Program]:
    program = Program(data, *more)
    try:
        yield program
    finally:
        program.kill()


def rows(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()]


def value(cursor: Any, sql: str) -> Any:
    return rows(cursor, sql)[0][0]


@dataclass
class Ledger:
    """What a writer asked for last and what it was told. Its transactions are numbered; each writes two tables."""

    asked: int = 0
    answered: int = 0


@dataclass
class Campaign:
    """Figures, and what no round may fall behind."""

    data: Path
    ledgers: dict[str, Ledger] = field(default_factory=lambda: {name: Ledger() for name in _WRITERS})
    highest: bytes = b""
    tables: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    table_asked: str = ""
    kills: int = 0
    cycles: int = 0
    killed: bool = False
    failures: list[Exception] = field(default_factory=list)

    def round(self, seed: int) -> None:
        with running(self.data) as program:
            if not self.kills:
                prepare(program)
            with program.connected() as cursor:
                self.check(cursor)
            load = [threading.Thread(target=self._write, args=(program, name)) for name in _WRITERS]
            load += [threading.Thread(target=run, args=(program,)) for run in (self._define, self._switch)]
            commits = {name: ledger.answered + _COMMITS for name, ledger in self.ledgers.items()}
            cycles = self.cycles + (seed % 3 == 2)

            def enough() -> bool:
                worked = all(ledger.answered >= commits[name] for name, ledger in self.ledgers.items())
                return bool(self.failures) or (worked and self.cycles >= cycles)

            for thread in load:
                thread.start()
            until(enough, "work is done")
            time.sleep(random.Random(seed).uniform(0, 0.3))
            self.killed = True
        self.kills += 1
        for thread in load:
            thread.join(_PATIENCE)
            assert not thread.is_alive()
        assert not self.failures
        self.killed = False

    @contextmanager
    def _until_killed(self) -> Iterator[None]:
        try:
            yield
        except (pymssql.Error, AssertionError) as error:
            if not self.killed:
                self.failures.append(error)

    def _write(self, program: Program, name: str) -> None:
        ledger = self.ledgers[name]
        with self._until_killed(), program.connected() as cursor:
            while True:
                ledger.asked = max(ledger.asked, ledger.answered) + 1
                cursor.execute(
                    f"BEGIN TRAN INSERT {name} (n) VALUES ({ledger.asked}) UPDATE last SET n = {ledger.asked} WHERE name = '{name}' "
                    f"DELETE {name} WHERE n = {ledger.asked - 5} COMMIT"
                )
                ledger.answered = ledger.asked

    def _define(self, program: Program) -> None:
        with self._until_killed(), program.connected() as cursor:
            while True:
                self.table_asked = f"made_{self.kills}_{len(self.tables)}"
                cursor.execute(f"CREATE TABLE {self.table_asked} (n int PRIMARY KEY, d date, CHECK (n > 0))")
                self.tables.add(self.table_asked)
                cursor.execute(f"CREATE UNIQUE INDEX ux ON {self.table_asked} (d) WHERE d > CAST('2024-01-01' AS date)")
                cursor.execute(f"INSERT {self.table_asked} VALUES (1, '2024-02-02')")

    def _switch(self, program: Program) -> None:
        """A database, a login and capture come and go; in whatever state the kill left them they come and go again."""
        with self._until_killed(), program.connected("master") as cursor:
            while True:
                if value(cursor, "SELECT DB_ID('other')") is None:
                    cursor.execute("CREATE DATABASE other COLLATE Turkish_CI_AS")
                cursor.execute("USE other")
                assert value(cursor, "SELECT collation_name FROM sys.databases WHERE name = 'other'") == "Turkish_CI_AS"
                if value(cursor, "SELECT is_cdc_enabled FROM sys.databases WHERE name = 'other'"):
                    cursor.execute("EXEC sys.sp_cdc_disable_db")
                cursor.execute("DROP TABLE IF EXISTS t CREATE TABLE t (n int PRIMARY KEY) EXEC sys.sp_cdc_enable_db")
                cursor.execute("EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL INSERT t VALUES (1)")
                until(lambda: value(cursor, "SELECT COUNT(*) FROM cdc.dbo_t_CT"), "a change is captured")
                cursor.execute("EXEC sys.sp_cdc_disable_db")
                if value(cursor, "SELECT SUSER_ID('guest1')") is not None:
                    cursor.execute("DROP LOGIN guest1")
                cursor.execute("CREATE LOGIN guest1 WITH PASSWORD = 'x-Password-1' USE master DROP DATABASE other")
                self.cycles += 1

    def check(self, cursor: Any) -> None:
        """What was answered is there, whole, captured once and in order."""
        highest = value(cursor, "SELECT sys.fn_cdc_get_max_lsn()") or b""
        assert highest >= self.highest
        for name, ledger in self.ledgers.items():
            last = value(cursor, f"SELECT n FROM last WHERE name = '{name}'")
            assert ledger.answered <= last <= max(ledger.asked, ledger.answered)
            ledger.answered = ledger.asked = last
            there = [n for (n,) in rows(cursor, f"SELECT n FROM {name} ORDER BY n")]
            assert there == list(range(max(1, last - 4), last + 1)), name
            ids = [number for (number,) in rows(cursor, f"SELECT id FROM {name} ORDER BY n")]
            assert ids == sorted(set(ids))
            self._check_captured(cursor, name, there)
        self._check_definitions(cursor)
        self.highest = value(cursor, "SELECT sys.fn_cdc_get_max_lsn()") or b""

    def _check_captured(self, cursor: Any, name: str, there: Sequence[int]) -> None:
        last = self.ledgers[name].answered
        inserted = f"SELECT n FROM cdc.dbo_{name}_CT WHERE __$operation = 2 ORDER BY __$start_lsn, __$seqval"
        until(lambda: len(rows(cursor, inserted)) >= last, "capture goes on")
        assert [n for (n,) in rows(cursor, inserted)] == list(range(1, last + 1))
        deleted = f"SELECT n FROM cdc.dbo_{name}_CT WHERE __$operation = 1 ORDER BY __$start_lsn, __$seqval"
        assert [n for (n,) in rows(cursor, deleted)] == list(range(1, last - 4))
        lsns = f"SELECT COUNT(DISTINCT __$start_lsn) FROM cdc.dbo_{name}_CT"
        assert value(cursor, lsns) == last
        known = (
            f"SELECT COUNT(*) FROM (SELECT DISTINCT __$start_lsn FROM cdc.dbo_{name}_CT) t JOIN cdc.lsn_time_mapping m"
        )
        assert value(cursor, f"{known} ON m.start_lsn = t.__$start_lsn") == last

    def _check_definitions(self, cursor: Any) -> None:
        found = {name for (name,) in rows(cursor, "SELECT name FROM sys.tables WHERE name LIKE 'made%'")}
        assert self.tables <= found <= self.tables | {self.table_asked}
        new, self.checked = found - self.checked, found
        self.tables = found
        for table in sorted(new):
            assert rows(cursor, f"SELECT n FROM {table}") in ([], [(1,)])
            with pytest.raises(pymssql.Error, match="547"):
                cursor.execute(f"INSERT {table} VALUES (-1, NULL)")
            if value(
                cursor, f"SELECT COUNT(*) FROM sys.indexes WHERE name = 'ux' AND object_id = OBJECT_ID('{table}')"
            ):
                cursor.execute(f"DELETE {table} INSERT {table} VALUES (1, '2024-02-02')")
                with pytest.raises(pymssql.Error, match="2601"):
                    cursor.execute(f"INSERT {table} VALUES (2, '2024-02-02')")


def until(condition: Any, what: str) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.01)


def prepare(program: Program) -> None:
    with program.connected() as cursor:
        cursor.execute("EXEC sys.sp_cdc_enable_db CREATE TABLE last (name char(1) PRIMARY KEY, n int)")
        for name in _WRITERS:
            cursor.execute(f"CREATE TABLE {name} (id int IDENTITY PRIMARY KEY, n int) INSERT last VALUES ('{name}', 0)")
            cursor.execute(f"EXEC sys.sp_cdc_enable_table 'dbo', '{name}', @role_name = NULL")


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(10, marks=pytest.mark.timeout(900)),  # ten starts of a program and its writers, beside other work
        pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_what_was_answered_survives_kills_in_the_middle_of_writes(tmp_path: Path, kills: int) -> None:
    campaign = Campaign(tmp_path / "data")
    for seed in range(kills):
        campaign.round(seed)
    with running(campaign.data) as program, program.connected() as cursor:
        campaign.check(cursor)
    assert campaign.kills == kills
    print(
        {name: ledger.answered for name, ledger in campaign.ledgers.items()},
        len(campaign.tables),
        campaign.cycles,
        flush=True,
    )


def test_application_locks_end_with_the_process_and_rows_stay(tmp_path: Path) -> None:
    lock = (
        "DECLARE @r int EXEC @r = sp_getapplock 'table 1', 'Exclusive', 'Session', 0 "
        "SELECT @r, (SELECT COUNT(*) FROM sys.tables)"
    )
    with running(tmp_path) as program, program.connected() as cursor:
        cursor.execute("CREATE TABLE cdc_offsets (name int) INSERT cdc_offsets VALUES (7)")
        assert rows(cursor, lock) == [(0, 1)]
        with program.connected() as other:
            assert rows(other, lock) == [(-1, 1)]
        program.kill()
    with running(tmp_path, "--database", "demo", "--database", "second") as program, program.connected() as cursor:
        assert rows(cursor, lock) == [(0, 1)]
        assert rows(cursor, "SELECT name FROM cdc_offsets") == [(7,)]
        assert value(cursor, "SELECT DB_ID('second')") is not None


def test_a_second_program_on_the_directory_is_refused_in_a_line(tmp_path: Path) -> None:
    with running(tmp_path):
        second = subprocess.run(
            [
                sys.executable,
                "-m",
                "emulators.sqlserver",
                "--port",
                "0",
                "--password",
                "x",
                "--data-dir",
                str(tmp_path),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert second.returncode == 1
    assert second.stderr.startswith(f"the data directory {tmp_path} is in use by another emulator (process ")
    assert second.stderr.count("\n") == 1
