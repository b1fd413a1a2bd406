"""What has arrived is taken from the socket in one call. A pair of sockets; no SDK."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace

import pytest

from common.servicebus.buffer import readable, whole_frames


class Counted:
    """A socket that counts how often it was read."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.reads = 0

    def recv(self, count: int) -> bytes:
        self.reads += 1
        return self._sock.recv(count)

    def fileno(self) -> int:
        return self._sock.fileno()


class Line:
    """One end of a connection as the SDK's handler holds it, and the other."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.sock, self.theirs = Counted(ours), theirs
        self.transport = SimpleNamespace(sock=self.sock, socket_lock=threading.Lock(), _read_buffer=BytesIO())
        self.handler = SimpleNamespace(_connection=SimpleNamespace(_transport=self.transport))

    def take(self, count: int) -> bytes:
        kept: BytesIO = self.transport._read_buffer
        return kept.read(count)


@pytest.fixture
def line() -> Iterator[Line]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Line(ours, theirs)


def test_frames_that_are_there_cost_one_read(line: Line) -> None:
    line.theirs.sendall(b"onetwo")
    assert readable(line.handler, 0)
    assert line.take(3) == b"one"
    assert readable(line.handler, 0)
    assert (line.take(3), line.sock.reads) == (b"two", 1)


def test_what_comes_later_is_read_then(line: Line) -> None:
    line.theirs.sendall(b"one")
    assert readable(line.handler, 0)
    assert line.take(3) == b"one"
    assert not readable(line.handler, 0)
    line.theirs.sendall(b"two")
    assert readable(line.handler, 60)
    assert line.take(3) == b"two"


def test_the_beginning_of_a_frame_that_the_transport_kept_is_not_lost(line: Line) -> None:
    line.transport._read_buffer = BytesIO(b"begin")
    line.theirs.sendall(b"end")
    assert readable(line.handler, 0)
    assert (line.take(8), line.sock.reads) == (b"begin", 0)


def test_an_end_is_left_for_the_transport_to_find(line: Line) -> None:
    line.theirs.close()
    assert readable(line.handler, 0)
    assert line.take(1) == b""


def test_a_transport_that_keeps_nothing_is_left_alone(line: Line) -> None:
    del line.transport._read_buffer
    line.theirs.sendall(b"one")
    assert readable(line.handler, 0)
    assert line.sock.reads == 0


def frame(octets: bytes) -> bytes:
    return (len(octets) + 8).to_bytes(4) + b"\x02\x00\x00\x00" + octets


@pytest.mark.parametrize(
    ("octets", "whole"),
    [
        (b"", 1),
        (frame(b"one") + frame(b"two"), 2),
        (frame(b"one") + frame(b"two")[:-1], 1),
        (frame(b"one") + b"\x00\x00", 1),
        (frame(b"one") * 9, 4),
        (b"\x00\x00\x00\x00" * 4, 1),
    ],
)
def test_only_frames_that_are_there_to_their_end_are_read_in_one_go(line: Line, octets: bytes, whole: int) -> None:
    line.transport._read_buffer = BytesIO(octets)
    assert whole_frames(line.handler, 4) == whole


def test_what_was_read_of_the_buffer_does_not_count(line: Line) -> None:
    line.transport._read_buffer = BytesIO(frame(b"one") + frame(b"two"))
    line.take(len(frame(b"one")))
    assert whole_frames(line.handler, 4) == 1
