"""A pipe of this process: no reader is a process of its own."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator

import pytest

from common.bus.ports import SendInterrupted
from common.errors import EntityUnavailable
from router.outputs.console.pipe import Pipe

FOR_LONG = 30.0


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def drained(reading: int, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += os.read(reading, 1 << 16)
    return got


def test_lines_arrive_as_they_are(ends: tuple[int, int]) -> None:
    reading, writing = ends

    Pipe(writing, "standard output").write([b"a\n", b"b\n"], seconds=FOR_LONG)

    assert os.read(reading, 100) == b"a\nb\n"


def test_what_a_full_pipe_took_is_accepted_and_a_cut_line_is_finished_before_the_next(ends: tuple[int, int]) -> None:
    reading, writing = ends
    pipe = Pipe(writing, "standard output")
    lines = [bytes([65 + at]) * 9_999 + b"\n" for at in range(20)]

    with pytest.raises(SendInterrupted) as stopped:
        pipe.write(lines, seconds=0.05)

    accepted = len(stopped.value.accepted)
    assert stopped.value.accepted == frozenset(range(accepted))
    assert 0 < accepted < len(lines)
    size = 10_000 * (accepted + 1) + 10_000 * (len(lines) - accepted)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(drained(reading, size)))
    reader.start()
    pipe.write(lines[accepted:], seconds=FOR_LONG)
    reader.join()
    assert got[0] == b"".join(lines[: accepted + 1]) + b"".join(lines[accepted:])


def test_a_pipe_that_nobody_reads_takes_no_line_twice_in_part(ends: tuple[int, int]) -> None:
    _, writing = ends
    pipe = Pipe(writing, "standard output")
    with pytest.raises(SendInterrupted):
        pipe.write([b"x" * 100_000 + b"\n"], seconds=0.05)

    with pytest.raises(SendInterrupted) as again:
        pipe.write([b"y\n"], seconds=0.05)

    assert again.value.accepted == frozenset()


def test_a_reader_that_is_gone_is_said(ends: tuple[int, int]) -> None:
    reading, writing = ends
    os.close(reading)

    with pytest.raises(EntityUnavailable, match="standard output: the reader has closed it"):
        Pipe(writing, "standard output").write([b"a\n"], seconds=FOR_LONG)


def test_a_wait_can_be_cut(ends: tuple[int, int]) -> None:
    _, writing = ends
    pipe = Pipe(writing, "standard output")
    cut = threading.Timer(0.05, pipe.cut)
    cut.start()

    with pytest.raises(SendInterrupted):
        pipe.write([b"x" * 1_000_000], seconds=FOR_LONG)

    cut.join()


def test_lines_of_several_threads_are_never_inside_of_each_other(ends: tuple[int, int]) -> None:
    reading, writing = ends
    pipe = Pipe(writing, "standard output")
    mine = [[bytes([97 + who]) * 20_000 + b"\n" for _ in range(5)] for who in range(4)]
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(drained(reading, 4 * 5 * 20_001)))
    reader.start()
    threads = [threading.Thread(target=pipe.write, args=(lines,), kwargs={"seconds": FOR_LONG}) for lines in mine]
    for thread in threads:
        thread.start()
    for thread in [*threads, reader]:
        thread.join()

    assert sorted(got[0].splitlines(keepends=True)) == sorted(line for lines in mine for line in lines)


def test_a_line_that_an_error_has_cut_is_finished_before_the_next(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = ends
    pipe = Pipe(writing, "standard output")
    lines = [bytes([65 + at]) * 4_999 + b"\n" for at in range(3)]
    write, calls = os.write, list[int]()

    def full(fd: int, data: bytes) -> int:
        calls.append(fd)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SendInterrupted, match="No space left") as stopped:
        pipe.write(lines, seconds=FOR_LONG)
    assert stopped.value.accepted == {0}

    pipe.write(lines[1:], seconds=FOR_LONG)

    assert drained(reading, 4 * 5_000) == lines[0] + lines[1] + lines[1] + lines[2]
