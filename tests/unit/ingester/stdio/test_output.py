"""Lines through a real pipe: one at a time, read before it counts, whole or the last."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from common.clock import SteadyTime
from common.errors import PermanentError, TransientError
from common.names import TableName
from ingester.slices import Expired
from ingester.stdio.output import SILENT_SECONDS, Output

CARS, PERSONS = TableName("dbo", "Cars"), TableName("dbo", "Persons")


@dataclass
class Pipe:
    """`now`: what the output's clock shows. `ended`: how often it said that nothing can be written any more.

    `local`: a socket, as Node gives to a child for a pipe.
    """

    local: bool = False
    now: float = 0.0
    ended: int = 0
    errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.local:
            self.reader, self.writer = (end.detach() for end in socket.socketpair())
        else:
            self.reader, self.writer = os.pipe()
        self.output = Output(self.writer, self._end, clock=lambda: SteadyTime(self.now))

    def _end(self) -> None:
        self.ended += 1

    def write(self, table: TableName, line: bytes, *, token: object | None = None) -> threading.Thread:
        def run() -> None:
            try:
                with self.output.turn(table, token) as write:
                    write(line)
            except Exception as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        self.output.cut()
        for descriptor in (self.reader, self.writer):
            try:
                os.close(descriptor)
            except OSError:
                continue


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@pytest.fixture
def local() -> Iterator[Pipe]:
    made = Pipe(local=True)
    yield made
    made.close()


def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("never")


def read_all(descriptor: int, wanted: int) -> bytes:
    found = b""
    while len(found) < wanted:
        found += os.read(descriptor, 65_536)
    return found


def test_a_line_is_done_when_its_reader_has_taken_all_of_it_and_not_before(pipe: Pipe) -> None:
    thread = pipe.write(CARS, b"0123456789\n")
    assert os.read(pipe.reader, 4) == b"0123"
    thread.join(0.3)
    assert thread.is_alive()
    assert os.read(pipe.reader, 100) == b"456789\n"
    thread.join(10)
    assert (thread.is_alive(), pipe.output.lines, pipe.errors) == (False, 1, [])


def test_a_line_in_a_local_socket_is_done_when_its_reader_has_taken_all_of_it_and_not_before(local: Pipe) -> None:
    test_a_line_is_done_when_its_reader_has_taken_all_of_it_and_not_before(local)


def test_lines_that_are_written_at_once_come_one_after_the_other_in_the_order_of_asking(pipe: Pipe) -> None:
    lines = [bytes([65 + number]) * 100_000 + b"\n" for number in range(4)]
    threads = []
    for number, line in enumerate(lines):
        threads.append(pipe.write(TableName("dbo", f"T{number}"), line))
        eventually(lambda wanted=number + 1: len(pipe.output._asking) == wanted)  # type: ignore[misc]
    assert read_all(pipe.reader, 400_004) == b"".join(lines)
    for thread in threads:
        thread.join(10)
    assert pipe.errors == []


def test_a_closed_reader_ends_it_and_the_line_is_not_done(pipe: Pipe) -> None:
    thread = pipe.write(CARS, b"x" * 200_000)
    os.read(pipe.reader, 10)
    os.close(pipe.reader)
    thread.join(10)
    assert pipe.ended == 1
    assert isinstance(pipe.errors[0], Expired)
    assert pipe.output.trouble() is None
    with pytest.raises(Expired), pipe.output.turn(CARS, None):
        pass


def test_a_reader_that_closes_while_nothing_is_written_is_noticed(pipe: Pipe) -> None:
    pipe.output.watch(threading.Event())
    os.close(pipe.reader)
    eventually(lambda: pipe.ended == 1)


def test_a_line_that_a_dead_host_left_in_the_pipe_is_not_done(pipe: Pipe) -> None:
    pipe.output.watch(threading.Event())
    thread = pipe.write(CARS, b"short\n")
    thread.join(0.2)
    os.close(pipe.reader)
    thread.join(10)
    assert isinstance(pipe.errors[0], Expired)


@pytest.mark.parametrize("read", [0, 5_000])
def test_a_line_that_a_dead_host_left_in_a_local_socket_is_not_done(local: Pipe, read: int) -> None:
    """The kernel throws away what it has not read, so nothing is left unread. Nobody watches: the line itself must find out."""
    thread = local.write(CARS, b"x" * 10_000)
    eventually(lambda: local.output._unread() >= 10_000)
    if read:
        os.read(local.reader, read)
    os.close(local.reader)
    thread.join(10)
    assert (type(local.errors[0]), local.output.lines, local.ended) == (Expired, 0, 1)


def test_a_socket_whose_kernel_takes_lines_for_a_reader_far_away_is_refused() -> None:
    for kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)):
        with socket.socket(*kind) as taken, pytest.raises(PermanentError, match="Unix stream socket"):
            Output(taken.fileno(), lambda: None)


def test_a_full_disk_is_a_permanent_error_with_the_cause() -> None:
    ended: list[int] = []
    descriptor = os.open("/dev/full", os.O_WRONLY)
    output = Output(descriptor, lambda: ended.append(1))
    with pytest.raises(Expired), output.turn(CARS, None) as write:
        write(b"line\n")
    with pytest.raises(PermanentError, match="writing to standard output: No space left on device"):
        output.trouble()
    assert ended == [1]
    os.close(descriptor)


def test_nobody_reads_is_a_trouble_with_one_line_in_the_log_and_one_when_it_is_over(pipe: Pipe) -> None:
    def told() -> bool:
        """The clock goes on until it is: the pipe may have taken its last piece after the clock was moved."""
        pipe.now += SILENT_SECONDS + 1
        return bool(logs)

    with capture_logs() as logs:
        thread = pipe.write(CARS, b"x" * 100_000)
        eventually(lambda: pipe.output.silent_seconds == 0 and pipe.output._begun is not None)
        assert pipe.output.trouble() is None
        eventually(told)
        assert (
            pipe.output.trouble()
            == f"the reader of standard output has read nothing for {pipe.output.silent_seconds:.0f} s"
        )
        assert pipe.output.slow
        pipe.now += 5
        assert read_all(pipe.reader, 100_000) == b"x" * 100_000
        thread.join(60)
    assert [line["event"] for line in logs] == [
        "nobody reads standard output, all tables wait",
        "standard output is read again",
    ]
    assert pipe.output.trouble() is None
    assert pipe.output.slow_since(0.0)


def test_a_stop_lets_the_line_in_flight_be_read_and_no_other_begin(pipe: Pipe) -> None:
    first = pipe.write(CARS, b"x" * 100_000)
    eventually(lambda: pipe.output._begun is not None)
    second = pipe.write(PERSONS, b"y\n")
    pipe.output.finish()
    second.join(10)
    assert isinstance(pipe.errors[0], Expired)
    assert read_all(pipe.reader, 100_000) == b"x" * 100_000
    first.join(10)
    assert (len(pipe.errors), pipe.output.lines) == (1, 1)


def test_a_line_that_is_given_up_is_not_done_and_nothing_follows_it(pipe: Pipe) -> None:
    thread = pipe.write(CARS, b"x" * 100_000)
    os.read(pipe.reader, 10)
    pipe.output.cut()
    thread.join(10)
    assert isinstance(pipe.errors[0], Expired)
    with pytest.raises(Expired), pipe.output.turn(CARS, None):
        pass


def test_an_older_slice_of_a_table_writes_nothing_once_a_newer_one_has_claimed_it(pipe: Pipe) -> None:
    older = pipe.output.claim(CARS)
    newer = pipe.output.claim(CARS)
    with pytest.raises(TransientError, match="given up"), pipe.output.turn(CARS, older):
        pass
    with pipe.output.turn(CARS, newer):
        pass


def test_a_claim_waits_for_the_line_of_its_own_table_alone(pipe: Pipe) -> None:
    thread = pipe.write(CARS, b"x\n", token=pipe.output.claim(CARS))
    eventually(lambda: pipe.output._begun is not None)
    pipe.output.claim(PERSONS)
    claiming = threading.Thread(target=pipe.output.claim, args=(CARS,), daemon=True)
    claiming.start()
    claiming.join(0.3)
    assert claiming.is_alive()
    os.read(pipe.reader, 10)
    claiming.join(10)
    thread.join(10)
    assert not claiming.is_alive()
