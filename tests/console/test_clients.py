"""Clients that are slow, mute, many or large, stores that are slow, and a stop while all of them are there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from common.errors import TransientError
from desk.console.calls import BOUNDS, Bounds, Calls
from desk.console.http.events import Events
from desk.console.http.serving import GuardedProtocol
from desk.desk import Conflict, Desk
from desk.documents.tables import Move
from desk.patience import given_up
from tests.console.serving import Running, running
from tests.fakes.desk import lively_desk


class Impatient(GuardedProtocol):
    head_seconds = 0.5
    read_seconds = 0.7
    most_connections = 30


@pytest.fixture(scope="module")
def impatient() -> Iterator[Running]:
    with running(protocol=Impatient, tables=1000) as found:
        yield found


def connected(console: Running) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", console.port), 5)
    found.settimeout(60)
    return found


def ended_after(link: socket.socket) -> float:
    """Seconds until the server has closed the connection."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while link.recv(65536):
            pass
    return time.monotonic() - began


def test_a_client_that_says_nothing_is_let_go(impatient: Running) -> None:
    with connected(impatient) as link:
        assert ended_after(link) < 30


@pytest.mark.parametrize("again", [False, True])
def test_a_client_that_never_ends_its_head_is_let_go(impatient: Running, again: bool) -> None:
    """Whatever it sends meanwhile, and also after a request that was whole."""
    with connected(impatient) as link:
        if again:
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert link.recv(65536).startswith(b"HTTP/1.1 200")
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 30:
                time.sleep(0.1)
                link.sendall(b"X: y\r\n")
        assert time.monotonic() - began < 30


def test_a_client_that_does_not_read_is_let_go(impatient: Running) -> None:
    with connected(impatient) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(OSError):
            for _ in range(20):
                link.sendall(b"GET /api/v1/tables?most=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        _until(lambda: _connections(impatient) <= 1)  # the fixture's own client may be there


def _until(right: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not right():
        assert time.monotonic() < end
        time.sleep(0.02)


def _connections(console: Running) -> int:
    """As the system counts those that the server has."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()][1:]
    return sum(line[1].endswith(f":{console.port:04X}") and line[3] == "01" for line in lines)


class Few(GuardedProtocol):
    head_seconds = 600
    most_connections = 30


def test_no_more_connections_are_kept_than_can_be() -> None:
    with running(protocol=Few) as console:
        links = [connected(console) for _ in range(40)]
        _until(lambda: _connections(console) <= 31)
        for link in links:
            link.close()
        _until(lambda: _connections(console) <= 1)
        assert console.get("session").status_code == 200


class Small(GuardedProtocol):
    most_connections = 30
    most_of_a_client = 10


def kept(links: list[socket.socket]) -> int:
    """How many the server has not closed."""
    found = 0
    for link in links:
        link.settimeout(0.01)
        try:
            found += link.recv(1) != b""
        except TimeoutError:
            found += 1
        except ConnectionError:
            pass
    return found


def test_a_client_with_too_many_connections_takes_none_of_another_s() -> None:
    with running(protocol=Small, counted_as=lambda address: address) as console, contextlib.ExitStack() as stack:
        hog = [
            stack.enter_context(
                socket.create_connection(("127.0.0.1", console.port), 5, source_address=("127.0.0.2", 0))
            )
            for _ in range(60)
        ]
        assert console.get("overview").status_code == 200
        assert kept(hog) == 10
        others = [stack.enter_context(connected(console)) for _ in range(8)]
        assert kept(others) == 8


def test_connections_that_ask_nothing_make_room_for_one_that_asks() -> None:
    """All have one address, as behind a proxy or on this machine."""
    with running(protocol=Small) as console, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(connected(console)) for _ in range(3)]
        for stream in streams:
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stream.recv(100).startswith(b"HTTP/1.1 200")
        hog = [stack.enter_context(connected(console)) for _ in range(60)]
        for _ in range(5):
            with httpx.Client(base_url=console.url) as client:
                assert client.get("/api/v1/overview").status_code == 200
        assert kept(hog) <= 27
        assert kept(streams) == 3


def test_a_body_that_does_not_come_is_answered(console: Running) -> None:
    gate: Any = console.served
    assert gate is not None
    with connected(console) as link:
        link.sendall(
            b"POST /api/v1/stories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 600000\r\n\r\n"
        )
        assert link.recv(65536).startswith(b"HTTP/1.1 413")


def test_a_body_is_limited_however_it_comes(console: Running) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    answer = console.client.post("/api/v1/stories", content=parts(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["type"] == "about:blank#large"


def test_a_head_is_limited(console: Running) -> None:
    with connected(console) as link:
        with contextlib.suppress(OSError):
            link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not link.recv(100).startswith(b"HTTP/1.1 200")
    assert console.get("session").status_code == 200


class Slow:
    """The port `Tables`, whose store answers when it is let."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.go, self.asked = inner, threading.Event(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def moves(self, name: str | None, most: int) -> list[Move]:
        self.asked += 1
        if not self.go.wait(120):
            raise TransientError("nobody let it")
        return []


@contextlib.contextmanager
def slow(within: float) -> Iterator[tuple[Running, Slow]]:
    desk = lively_desk()
    found = Slow(desk.tables)
    stand_in: Any = found
    bare: Desk = replace(desk, tables=stand_in)
    calls = Calls({**BOUNDS, "tables": Bounds(threads=3, waiting=5, within=within)})
    with running(desk=bare, calls=calls) as console:
        yield console, found
        found.go.set()


def test_a_slow_store_keeps_few_threads_and_no_other_part_waiting() -> None:
    with slow(within=60) as (console, store), ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(console.get, "offsets/moves") for _ in range(40)]
        refused = [each.result() for each in asked_until(asked, 32)]
        assert {each.status_code for each in refused} == {503}
        assert refused[0].headers["retry-after"]
        assert refused[0].json()["type"] == "about:blank#busy"
        assert store.asked == 3
        began = time.monotonic()
        assert console.get("overview").status_code == 200
        assert console.get("configuration").status_code == 200
        assert time.monotonic() - began < 20
        store.go.set()
        assert sorted({each.result().status_code for each in asked}) == [200, 503]


def asked_until(asked: list[Any], count: int) -> list[Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done = [each for each in asked if each.done()]
        if len(done) >= count:
            return done
        time.sleep(0.02)
    raise AssertionError(f"only {len(done)} answers")


def test_an_answer_that_does_not_come_is_said_to_be_overdue() -> None:
    with slow(within=0.3) as (console, store):
        answer = console.get("offsets/moves")
        assert (answer.status_code, answer.json()["type"]) == (504, "about:blank#overdue")
        assert "audit" not in answer.text  # nothing was to be changed
        assert console.get("offsets/moves?table=dbo.Orders").json()["detail"].startswith("dbo.Orders: there was no")
        for _ in range(8):  # its thread is kept, and what waits in vain is forgotten
            console.get("offsets/moves")
        assert store.asked <= 4


class Writing(Slow):
    """Its store asks before it writes, as the configuration does."""

    def pause(self, name: str, order: Any, actor: Any) -> Any:
        self.asked += 1
        assert self.go.wait(120)
        if given_up():
            raise Conflict("it took too long")
        return self.inner.pause(name, order, actor)


def test_an_overdue_change_is_not_made_and_the_audit_log_says_so() -> None:
    desk = lively_desk()
    store: Any = Writing(desk.tables)
    calls = Calls({**BOUNDS, "tables": Bounds(threads=1, waiting=5, within=1.5)})
    with running(desk=replace(desk, tables=store), calls=calls) as console:
        first, second = (console.post(f"tables/dbo.{name}/pause", {}) for name in ("Orders", "Persons"))
        assert (first.status_code, second.status_code) == (504, 504)
        assert "`begun` under the number of this request" in first.json()["remedy"]
        assert "nothing was changed" in second.json()["remedy"]  # it has waited for the first
        assert [(line.request, line.outcome) for line in console.audit.written] == [(first.json()["request"], "begun")]
        store.go.set()
        _until(lambda: len(console.audit.written) >= 2)
        assert [line.outcome for line in console.audit.written] == ["begun", "refused"]
        assert console.audit.written[-1].request == first.json()["request"]
        assert console.get("tables/dbo.Orders").json()["pause"] is None
        assert store.asked == 1


def test_a_defect_is_an_answer_without_its_text(capfd: pytest.CaptureFixture[str]) -> None:
    desk = lively_desk()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ValueError("hunter2 is the value of a row")

    stand_in: Any = Broken()
    with running(desk=replace(desk, messages=stand_in)) as console:
        answer = console.get("messages?entity=queue")
        assert (answer.status_code, answer.json()["type"]) == (500, "about:blank#defect")
        assert answer.headers["content-security-policy"]
        assert console.get("overview").status_code == 200
    said = capfd.readouterr()
    assert "hunter2" not in answer.text + said.out + said.err
    assert answer.json()["request"] in said.out + said.err
    assert "Traceback" not in said.out + said.err


ENDED = b"\r\n0\r\n\r\n"


async def _stream(
    port: int, seconds: float, headers: str = "", enough: Callable[[bytes], bool] = lambda found: found.endswith(ENDED)
) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    writer.write(f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
    found, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not enough(found):
        try:
            part = await asyncio.wait_for(reader.read(2**20), left)
        except TimeoutError:
            break
        if not part:
            break
        found += part
    writer.close()
    return found.decode("utf-8", "replace")


def events_of(text: str) -> list[tuple[str, int, Any]]:
    """Of a stream in chunks: kind, number and document."""
    body = text.partition("\r\n\r\n")[2]
    whole, rest = "", body.encode()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            break
        whole, rest = whole + rest[:length].decode("utf-8", "replace"), rest[length + 2 :]
    found = []
    for block in whole.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in lines:
            with contextlib.suppress(json.JSONDecodeError):
                found.append((lines["event"], int(lines["id"]), json.loads(lines["data"])))
    return found


def test_a_stream_says_all_and_then_what_has_changed() -> None:
    with running(tables=40, look_every=0.2) as console:
        time.sleep(0.6)
        console.post("tables/hr.v1.Absences/pause", {})
        found = events_of(
            asyncio.run(_stream(console.port, 60, enough=lambda found: found.count(b"event: tables") > 3))
        )
    kinds = [kind for kind, *_ in found]
    assert kinds[:3] == ["overview", "tables", "operations"]
    assert found[1][2]["complete"] is True
    assert len(found[1][2]["items"]) == 40
    later = [document for kind, _, document in found[3:] if kind == "tables"]
    assert later
    assert all(not each["complete"] and 0 < len(each["items"]) < 40 for each in later)
    assert "dbo.Straße" not in {each["table"] for document in later for each in document["items"]}  # always idle


def test_a_stream_that_comes_again_gets_what_it_missed() -> None:
    with running(tables=40, look_every=0.2) as console:

        def some(headers: str = "") -> list[tuple[str, int, Any]]:
            return events_of(asyncio.run(_stream(console.port, 60, headers, lambda found: found.count(b"event: ") > 3)))

        found = some()
        last = found[-1][1]
        again, stale = some(f"Last-Event-ID: {last}\r\n"), some("Last-Event-ID: 999999\r\n")
    assert again
    assert all(number > last for _, number, _ in again)
    assert not any(document.get("complete") for kind, _, document in again if kind == "tables")
    assert stale[1][2]["complete"] is True


def test_a_quiet_stream_shows_that_it_lives() -> None:
    with running(look_every=60, events=Events(heartbeat=0.2)) as console:
        found = asyncio.run(_stream(console.port, 60, enough=lambda found: found.count(b": still there") >= 2))
    assert found.count(": still there") >= 2


def test_as_many_streams_as_there_is_room_for_are_served_and_more_are_refused() -> None:
    async def many(port: int) -> list[str]:
        """Each stays until all have heard what there is, or that there is no room."""
        heard = set[int]()

        def enough(number: int, found: bytes) -> bool:
            refused = found.startswith(b"HTTP/1.1 503")
            if refused or b"event: overview" in found:
                heard.add(number)
            return refused or len(heard) == 60

        return await asyncio.gather(*(_stream(port, 60, enough=partial(enough, number)) for number in range(60)))

    with running(tables=20, look_every=0.5, events=Events(most=50, most_each=50, heartbeat=0.2)) as console:
        time.sleep(1)
        found = asyncio.run(many(console.port))
        served = [each for each in found if each.startswith("HTTP/1.1 200")]
        assert len(served) == 50
        assert all(any(kind == "overview" for kind, *_ in events_of(each)) for each in served)
        assert sum(each.startswith("HTTP/1.1 503") for each in found) == 10
        _until(lambda: not console.served.events.readers)
        assert console.get("overview").status_code == 200


def test_a_stream_that_nobody_reads_is_let_go() -> None:
    with running(tables=1000, look_every=0.05, protocol=Impatient) as console, connected(console) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        _until(lambda: console.served.events.readers == 1)
        _until(lambda: not console.served.events.readers)


def test_a_stop_does_not_wait_for_streams() -> None:
    with ThreadPoolExecutor(5) as pool, running(look_every=0.5) as console:
        streams = [pool.submit(lambda: asyncio.run(_stream(console.port, 90))) for _ in range(5)]
        _until(lambda: console.served.events.readers == 5)
        began = time.monotonic()
        console.served.events.stop()
        assert all(each.result().startswith("HTTP/1.1 200") for each in streams)
        assert time.monotonic() - began < 30
