"""Health ports, read from real ones and from servers that are none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from common.clock import SteadyTime
from common.errors import ConfigurationError
from common.names import TableName
from common.observability.health import HealthEndpoint
from common.observability.health_settings import HealthSettings
from common.unread import Unread
from desk.watching import fetching
from desk.watching.fetching import Target, place_of
from desk.watching.scraping import Scraper
from ingester.slices import SliceResult
from ingester.watch.capture_watch import CaptureFigures
from ingester.watch.figures import Standing
from ingester.watch.metrics import samples as ingester_samples
from ingester.watch.stats import IngesterStats
from router.metrics import samples as router_samples
from router.tally import Tally
from tests.worlds.ports import free_port

A, B = TableName("dbo", "A"), TableName("dbo", "B")


def _look(*ports: int) -> list[object]:
    unread = list[Unread]()
    found = Scraper([f"http://127.0.0.1:{port}" for port in ports]).look(unread)
    assert not unread
    return list(found)


def test_an_ingester_and_a_router_say_what_they_are_and_how_they_are() -> None:
    stats = IngesterStats([A, B])
    stats.stands(A, Standing.READ, behind=True)
    stats.stands(B, Standing.STOPPED)
    stats.connected(True)
    stats.settled(SliceResult(A, None, changes=42))
    stats.occupied(2, 8)
    tally = Tally()
    tally.filled({"queue ingest": 0.25}, {"active": 3})
    ingester, router = free_port(), free_port()
    with (
        HealthEndpoint(
            HealthSettings(host="127.0.0.1", port=ingester),
            alive=lambda: None,
            ready=stats.ready,
            samples=lambda: ingester_samples(stats, CaptureFigures()),
        ),
        HealthEndpoint(
            HealthSettings(host="127.0.0.1", port=router),
            alive=lambda: None,
            ready=lambda: None,
            samples=lambda: router_samples(tally.figures()),
        ),
    ):
        unread = list[Unread]()
        first, second = Scraper([f"127.0.0.1:{ingester}", f"http://127.0.0.1:{router}"]).look(unread)
    process = first.process
    assert (process.stage, process.reached, process.alive, process.ready) == ("ingester", True, True, False)
    assert "stopped with an error" in (process.text or "")
    assert (process.tables, process.slots, process.slots_busy, process.sessions) == (1, 8, 2, None)
    assert (process.memory_bytes or 0) > 1_000_000
    assert first.states == {"dbo.A": "read", "dbo.B": "stopped"}
    assert first.changes["dbo.A"] == 42
    assert second.process.stage == "router"
    assert second.fills == {"queue ingest": 0.25}
    assert (second.process.sessions, second.process.parked) == (0, 0)


def test_nobody_there_is_a_process_that_is_not_reached() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    [named] = Scraper([url], {url: "router"}).look([])
    assert (named.process.stage, named.process.reached) == ("router", False)
    [found] = Scraper([f"http://127.0.0.1:{free_port()}"]).look([])
    assert (found.process.reached, found.process.stage) == (False, "unknown")
    assert "Connection refused" in (found.process.text or "")


def test_a_start_looks_like_one_for_some_minutes_and_a_death_does_not() -> None:
    now = [0.0]
    port, stats = free_port(), IngesterStats([A])
    scraper = Scraper([f"127.0.0.1:{port}"], {f"127.0.0.1:{port}": "ingester"}, clock=lambda: SteadyTime(now[0]))

    def starting() -> bool:
        [found] = scraper.look([])
        return found.starting

    assert starting()
    now[0] = 121.0
    assert not starting()
    endpoint = HealthEndpoint(
        HealthSettings(host="127.0.0.1", port=port),
        alive=lambda: None,
        ready=stats.ready,
        samples=lambda: ingester_samples(stats, CaptureFigures()),
    )
    with endpoint:
        assert starting()
        now[0] += 301.0
        assert not starting()
        stats.connected(True)
        assert not starting()
    now[0] = 0.0
    assert not starting()


@contextmanager
def _server(answer: bytes, *, endless: bool = False) -> Iterator[int]:
    """Answers each connection with the same; `endless`: a byte now and then, without an end."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while not stop.is_set():
                try:
                    one, _ = listening.accept()
                except OSError:
                    return
                with one:
                    try:
                        one.recv(1000)
                        one.sendall(answer)
                        while endless and not stop.wait(0.05):
                            one.sendall(b"x")
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            stop.set()
            listening.shutdown(socket.SHUT_RDWR)


def test_a_server_that_never_ends_its_answer_costs_the_deadline_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.3)
    with _server(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", endless=True) as port:
        begun = time.monotonic()
        [found] = Scraper([f"http://127.0.0.1:{port}"]).look([])
        assert time.monotonic() - begun < 60
    assert not found.process.reached
    assert "no answer within 0.3 s" in (found.process.text or "")


def test_another_program_at_the_port_is_no_process() -> None:
    with _server(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        [found] = Scraper([f"http://127.0.0.1:{port}"]).look([])
    assert not found.process.reached
    assert "no answer of a health port" in (found.process.text or "")


def test_every_address_of_a_name_is_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(host: str, port: int, **_: object) -> list[object]:
        return [(socket.AF_INET, None, 6, "", (address, port)) for address in ("127.0.0.1", "127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    port = free_port()
    assert fetching.targets_of("routers", port) == [
        Target("routers", "127.0.0.1", port),
        Target("routers", "127.0.0.2", port),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://ingester", ("ingester", 8080)), ("router:81", ("router", 81)), ("http://[::1]:81/", ("::1", 81))],
)
def test_an_address_of_a_health_port(url: str, expected: tuple[str, int]) -> None:
    assert place_of(url) == expected


@pytest.mark.parametrize("url", ["https://ingester", "http://ingester/metrics", "http://", "http://a:b", "http://u@a"])
def test_what_is_no_address_of_a_health_port_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not the address of a health port"):
        place_of(url)
