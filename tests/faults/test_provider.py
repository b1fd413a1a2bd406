"""A host that starts the provider, reads lines, stops reading, kills it and starts it again: nothing is lost, one line at most comes again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.worlds.provider_host import TABLES, Database, Host, changes_of
from tests.worlds.world import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="polls pipes as Linux has them")

Started = Callable[..., Host]
Way = Literal["pipe", "socket"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One for all, of which a provider has read a row of each table; each test begins where the one before has ended."""
    with Database() as opened:
        host = Host(opened.config(), tmp_path_factory.mktemp("first") / "provider.log")
        try:
            for table in TABLES:
                opened.put(table, 1)
            host.read_until(everything(opened, host), "the first rows")
            assert host.end() == 0, host.said()
        finally:
            host.close()
        yield opened


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Iterator[Started]:
    with ExitStack() as opened:

        def started(config: dict[str, Any] | None = None, **options: Any) -> Host:
            host = Host(database.config() if config is None else config, tmp_path / "provider.log", **options)
            opened.callback(host.close)
            return host

        yield started


def everything(database: Database, host: Host) -> Callable[[], bool]:
    """Whether the last committed row of each table has come."""
    return lambda: all(host.last(table) == database.committed[table] for table in TABLES)


class Campaign:
    """Kills of one provider after the other, under load, at random instants. `ways`: what their lines come through, in turn."""

    def __init__(self, folder: Path, seed: int, *ways: Way) -> None:
        self._folder, self._random, self._ways = folder, random.Random(seed), ways
        self.repeats: list[int] = []
        """Of each kill: how many whole lines came again."""
        self.halves = self.lines = self.changes = self.vanished = 0

    def run(self, kills: int) -> None:
        last = dict.fromkeys(TABLES, 0)
        with Database() as database:
            database.write()
            for number in range(kills + 1):
                way = self._ways[number % len(self._ways)]
                config, log = database.config(max_line_bytes=1_500), self._folder / "provider.log"
                host = Host(config, log, local_socket=way == "socket")
                try:
                    if number < kills:
                        self._read_a_while(host)
                        self._end(host)
                    else:
                        database.stop()
                        host.read_until(everything(database, host), "everything has come", timeout=600)
                        assert host.end() == 0, host.said()
                finally:
                    host.close()
                self._judge(host, last)
            assert last == database.committed

    def _read_a_while(self, host: Host) -> None:
        host.read_until(lambda: bool(host.lines), "a first line")
        until = time.monotonic() + self._random.uniform(0, 0.6)
        while time.monotonic() < until:
            host.read(0.02, most=self._random.choice((100, 4_096, 65_536)))
        if self._random.random() < 0.3:  # nobody reads any more, as a host that is about to fall
            time.sleep(self._random.uniform(0, 0.5))

    def _end(self, host: Host) -> None:
        """The provider is killed, or the host itself is, with its pipe."""
        if self._random.random() < 0.6:
            host.kill()
        else:
            self.vanished += 1
            assert host.vanish() == 0, host.said()

    def _judge(self, host: Host, last: dict[str, int]) -> None:
        """What came follows what came before: rows again are those of one line at most, and none is missing."""
        self.halves += bool(host.half)
        self.lines += len(host.lines)
        again = 0
        for line in host.lines:
            envelope = json.loads(line)
            table = envelope["table_name"].removeprefix("dbo.")
            ids = [change["data"]["Id"] for change in envelope["changes"]]
            assert ids == list(range(ids[0], ids[0] + len(ids))), f"out of order: {ids}"
            assert ids[0] <= last[table] + 1, f"lost of {table}: {last[table] + 1} to {ids[0] - 1}"
            again += ids[0] <= last[table]
            self.changes += len(ids)
            last[table] = max(last[table], ids[-1])
        self.repeats.append(again)

    def told(self) -> str:
        again = f"at most {max(self.repeats)} ({sum(self.repeats)} in all)"
        return (
            f"{len(self.repeats) - 1} kills, {self.vanished} of them of the host, {self.lines} lines with {self.changes} changes: "
            f"lost 0, lines repeated after a kill {again}, half lines {self.halves}"
        )


def test_kills_lose_nothing_and_repeat_at_most_the_line_in_flight(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 4, "pipe", "socket")
    campaign.run(5)
    assert max(campaign.repeats) <= 1, campaign.repeats


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("way", ["pipe", "socket"])
def test_fifty_kills(tmp_path: Path, seed: int, way: Way) -> None:
    campaign = Campaign(tmp_path, seed, way)
    campaign.run(int(os.environ.get("DSTREAM_TEST_KILLS", "50")))
    print(campaign.told(), flush=True)
    assert max(campaign.repeats) <= 1, campaign.repeats


def test_a_reader_that_stops_reading_stops_it_and_gets_everything_once_when_it_reads_again(
    database: Database, start: Started
) -> None:
    host = start(keeps_stdin=True)
    database.put("Cars", 1)
    host.read_until(lambda: bool(host.ids("Cars")), "a first change")
    for _ in range(20):
        database.put("Persons", 100, text="x" * 150)
    wait_until(lambda: stood(database), "the offsets stand")
    database.put("Cars", 1)
    host.read_until(everything(database, host), "everything")
    for table in TABLES:
        ids = host.ids(table)
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert "failed" not in host.said()
    assert host.end() == 0


def stood(database: Database) -> bool:
    """Whether no offset has moved for a second."""
    before = database.offsets()
    time.sleep(1)
    return database.offsets() == before


def test_a_stop_finishes_the_line_for_a_reader_that_reads(database: Database, start: Started) -> None:
    host = start()
    database.put("Cars", 600, text="y" * 150)
    host.read_until(lambda: bool(host.half), "a piece of a line", most=50)
    assert host.end() == 0, host.said()
    assert host.half == b""
    after = start()
    database.put("Cars", 1)
    after.read_until(lambda: after.last("Cars") == database.committed["Cars"], "the rest")
    both = host.ids("Cars") + after.ids("Cars")
    assert both == list(range(both[0], database.committed["Cars"] + 1))
    assert after.end() == 0


@pytest.mark.soak
def test_a_stop_ends_within_its_bound_when_nobody_reads_and_the_line_is_not_committed(
    database: Database, start: Started
) -> None:
    host = start()
    for _ in range(4):
        database.put("Cars", 500, text="z" * 150)
    host.read_until(lambda: bool(host.half), "half a line", most=50)
    wait_until(lambda: "nobody reads standard output" in host.said(), "a warning")
    host.process.terminate()
    assert host.process.wait(20) == 0, host.said()
    host.drain()
    after = start()
    after.read_until(lambda: after.last("Cars") == database.committed["Cars"], "the rest")
    before, rest = host.ids("Cars"), after.ids("Cars")
    assert rest == list(range(rest[0], database.committed["Cars"] + 1))
    assert before == [] or before[0] <= rest[0] <= before[-1] + 1
    if not host.half:  # all of the line was in the pipe, and nobody had read it when it was given up
        assert rest[0] == changes_of(host.lines[-1:])[0]["data"]["Id"]
    assert after.end() == 0


def test_a_reader_that_closes_ends_it_with_status_0_even_when_there_is_nothing_to_write(
    database: Database, start: Started
) -> None:
    host = start()
    database.put("Cars", 1)
    host.read_until(lambda: bool(host.lines), "a line")
    assert host.process.stdout is not None
    host.process.stdout.close()
    assert host.process.wait(30) == 0, host.said()
    assert "Traceback" not in host.said()
    assert "the reader has closed standard output" in host.said()


def test_a_full_disk_is_an_error_with_the_cause_and_commits_nothing(database: Database, start: Started) -> None:
    before = database.offsets()
    database.put("Cars", 1)
    with Path("/dev/full").open("wb") as full:
        host = start(stdout=full.fileno())
        assert host.process.wait(30) == 1, host.said()
    assert "writing to standard output: No space left on device" in host.said()
    assert "Traceback" not in host.said()
    assert database.offsets()[0][:3] == before[0][:3]  # of Cars; the other table has nothing to write, and may move


def test_an_ingester_for_another_destination_is_refused(database: Database, start: Started) -> None:
    with database.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE dbo.cdc_offsets SET destination = N'ns.servicebus.windows.net/q (localhost/shop)'")
        connection.commit()
    try:
        host = start()
        assert host.process.wait(30) == 1, host.said()
        assert "its changes are sent to ns.servicebus.windows.net/q" in host.said()
        assert "standard output" in host.said()
    finally:
        with database.login.connect() as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE dbo.cdc_offsets SET destination = N'standard output (localhost/shop)'")
            connection.commit()


def test_a_wrong_document_ends_it_with_status_2_and_no_line(tmp_path: Path) -> None:
    wrong = {
        "db_connection_string": "server=h;user id=a;password=Secret-Word-9;database=d",
        "tables": ["T"],
        "lock_config": {"type": "zk"},
    }
    made = subprocess.run(
        [str(Path(sys.executable).with_name("dstream")), "provider"],
        input=json.dumps({"command": "run", "config": wrong}).encode(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (made.returncode, made.stdout) == (2, b"")
    assert b'$.config.lock_config.type: must be one of "azure_blob", "sqlserver", "local"' in made.stderr
    assert b"Secret-Word-9" not in made.stderr


def test_the_host_of_the_manual_prints_every_change_once(database: Database, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "provider.md").read_text()
    program = tmp_path / "host.py"
    program.write_text(page.partition("```python\n")[2].partition("```")[0])
    configuration = tmp_path / "config.json"
    configuration.write_text(json.dumps(database.config()))
    first = database.committed["Cars"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (tmp_path / "host.log").open("wb") as log:
        host = subprocess.Popen(
            [sys.executable, str(program), str(configuration)],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PATH": path},
        )
    assert host.stdout is not None
    seen: list[int] = []
    reader = threading.Thread(
        target=lambda: seen.extend(json.loads(line.split(b" ", 2)[2])["Id"] for line in host.stdout or ())
    )
    reader.start()
    try:
        database.put("Cars", 3)
        wait_until(lambda: seen[-1:] == [first + 3], "the last change")
    finally:
        host.terminate()
        status = host.wait(30)
        reader.join(30)
        host.stdout.close()
    assert seen[-3:] == [first + 1, first + 2, first + 3]
    assert len(seen) == len(set(seen))
    assert status == 0


def test_rows_of_a_snapshot_come_as_lines_and_masks_hold_in_all_of_them(tmp_path: Path) -> None:
    with Database() as database:
        database.put("Persons", 400, text="Private-Word")
        shape = {"overrides": [{"table_name": "Persons", "mask": {"Text": "redact"}}]}
        config = database.config(
            tables=["Persons"], snapshot={"mode": "initial"}, tables_overrides=shape, before_images=True
        )
        host = Host(config, tmp_path / "provider.log")
        try:
            host.read_until(lambda: len(reads(host)) == 400, "the rows")
            with database.login.connect() as connection, connection.cursor() as cursor:
                cursor.execute("UPDATE dbo.Persons SET Text = N'Private-Word too' WHERE Id = 7")
                connection.commit()
            host.read_until(lambda: host.changes()[-1]["change_type"] == "update", "the update")
            assert host.end() == 0
        finally:
            host.close()
    assert sorted(reads(host)) == list(range(1, 401))
    assert host.changes()[-1]["before"] == host.changes()[-1]["data"] == {"Id": 7, "Text": "***"}
    assert b"Private-Word" not in b"".join(host.lines) + host.log.read_bytes()


def reads(host: Host) -> list[int]:
    return [change["data"]["Id"] for change in host.changes() if change["change_type"] == "read"]


def test_what_libraries_and_children_print_never_reaches_the_host_and_spark_is_not_even_imported() -> None:
    program = (
        "import os, subprocess, sys, ingester.app\n"
        "assert not {'pyspark', 'py4j'} & sys.modules.keys()\n"
        "from ingester.stdio.output import taken_standard_output\n"
        "output = taken_standard_output()\n"
        "print('printed'); os.write(1, b'written\\n'); subprocess.run(['echo', 'child'], check=True)\n"
        "sys.stdout.flush(); os.write(output, b'line\\n')"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert made.stdout == b"line\n"
    assert {b"printed", b"written", b"child"} <= set(made.stderr.split())
