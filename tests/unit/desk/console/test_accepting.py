"""Connections before their handshake is over: too many of them make room, and a lack of descriptors is one line a minute."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from desk.console import descriptors
from desk.console.http.accepting import Listener, Troubles
from desk.console.http.serving import listening


class Clock:
    time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening("127.0.0.1", 0) as found:
        found.setblocking(True)
        yield found


def accepted(listener: Listener, stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    client = stack.enter_context(socket.create_connection(listener.getsockname(), 5))
    return client, stack.enter_context(listener.accept()[0])


def is_closed(client: socket.socket) -> bool:
    client.settimeout(0.05)
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False


def test_of_too_many_that_say_nothing_the_oldest_is_closed(listener: Listener) -> None:
    listener.most_waiting = 3
    with ExitStack() as stack:
        first, second, third, *_ = links = [accepted(listener, stack) for _ in range(3)]
        listener.arrived(first[1].fileno())
        second[1].close()
        links += [accepted(listener, stack) for _ in range(2)]
        assert [is_closed(client) for client, _ in links] == [False, True, False, False, False]
        links.append(accepted(listener, stack))
        assert [is_closed(client) for client, _ in links] == [False, True, True, False, False, False]
        assert third[1].fileno() != -1, "asyncio closes it"


def test_a_client_with_too_many_makes_room_by_its_own(listener: Listener) -> None:
    listener.most_of_a_client = 2
    names = iter(("ada", "hog", "hog", "hog"))
    listener.counted_as = lambda address: next(names)
    with ExitStack() as stack:
        links = [accepted(listener, stack) for _ in range(4)]
        assert [is_closed(client) for client, _ in links] == [False, True, False, False]


def test_without_descriptors_accepting_pauses(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = Clock(), list[int]()
    listener.now = clock

    def refused(self: socket.socket) -> None:
        asked.append(1)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket.socket, "accept", refused)
    with pytest.raises(OSError, match="Too many open files"):
        listener.accept()
    for _ in range(100):
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert len(asked) == 1
    clock.time += 1
    with pytest.raises(OSError, match="Too many open files"):
        listener.accept()


def test_a_lack_of_descriptors_is_said_once_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock, loop = Clock(), asyncio.new_event_loop()
    troubles = Troubles(clock)
    context = {
        "message": "socket.accept() out of system resource",
        "exception": OSError(errno.EMFILE, "Too many open files"),
    }
    try:
        for seconds in (0, 1, 30, 61):
            clock.time = 1000.0 + seconds
            troubles(loop, context)
    finally:
        loop.close()
    assert capsys.readouterr().out.count("no connection can be accepted") == 2


def test_as_many_descriptors_as_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda what: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda what, given: limits.__setitem__(slice(None), given))
    assert descriptors.raised() == 4096
    assert limits == [4096, 4096]
    assert [descriptors.connections(most) for most in (100, 5000)] == [100, 1024]
    limits[:] = [20000, 20000]
    assert descriptors.raised() == 20000
