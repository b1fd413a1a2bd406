"""The port of health and metrics, asked over real HTTP."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from common.errors import PermanentError
from common.observability.health import MOST_AT_ONCE, HealthEndpoint
from common.observability.health_settings import HealthSettings
from common.observability.metrics import Metric
from tests.worlds.ports import free_port

UP = Metric("dstream_test_up", "gauge", "Whether it is.")


class Stage:
    """What an endpoint tells of."""

    def __init__(self, request_seconds: float = 10.0) -> None:
        self.ill: str | None = None
        self.busy: str | None = None
        self.broken = False
        self.hangs: threading.Event | None = None
        """Set where an answer at `/healthz` has to wait for it."""
        self.endpoint = HealthEndpoint(
            settings(free_port()),
            alive=self._alive,
            ready=lambda: self.busy,
            samples=lambda: [UP(1 / (not self.broken))],
            request_seconds=request_seconds,
        )

    def _alive(self) -> str | None:
        if self.hangs is not None:
            self.hangs.wait(30)
        return self.ill

    def ask(self, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
        client = http.client.HTTPConnection("127.0.0.1", self.endpoint.port, timeout=10)
        try:
            client.request(method, path)
            answer = client.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            client.close()


def settings(port: int, host: str = "127.0.0.1") -> HealthSettings:
    return HealthSettings(port=port, host=host)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    with made.endpoint:
        yield made


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_all_is_well(stage: Stage, path: str) -> None:
    assert stage.ask(path)[:2] == (200, "ok\n")


def test_what_is_the_matter_is_said_with_503(stage: Stage) -> None:
    stage.ill, stage.busy = "the loop has not turned for 200 s", "not connected"
    assert stage.ask("/healthz")[:2] == (503, "the loop has not turned for 200 s\n")
    assert stage.ask("/readyz")[:2] == (503, "not connected\n")


def test_metrics_are_told_as_prometheus_reads_them(stage: Stage) -> None:
    status, text, headers = stage.ask("/metrics?name=ignored")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\ndstream_test_up 1.0\n" in text


def test_a_defect_is_an_answer_and_the_next_request_works(stage: Stage) -> None:
    stage.broken = True
    assert stage.ask("/metrics")[:2] == (500, "unexpected ZeroDivisionError\n")
    stage.broken = False
    assert stage.ask("/metrics")[0] == 200


def test_other_pages_and_methods_are_refused(stage: Stage) -> None:
    assert stage.ask("/")[:2] == (404, "the pages are /healthz, /readyz, /metrics\n")
    status, text, headers = stage.ask("/healthz", "POST")
    assert (status, text, headers["Allow"]) == (405, "only GET and HEAD\n", "GET, HEAD")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_every_other_method_of_http_is_refused_as_one(stage: Stage, method: str) -> None:
    assert stage.ask("/metrics", method)[:2] == (405, "only GET and HEAD\n")


def test_a_word_that_is_no_method_is_not_implemented_and_the_next_request_works(stage: Stage) -> None:
    assert stage.ask("/healthz", "BREW")[0] == 501
    assert stage.ask("/healthz")[0] == 200


def test_head_is_answered_without_a_body(stage: Stage) -> None:
    status, text, headers = stage.ask("/healthz", "HEAD")
    assert (status, text, headers["Content-Length"]) == (200, "", "3")


def test_a_client_that_says_nothing_holds_up_nobody(stage: Stage) -> None:
    with socket.create_connection(("127.0.0.1", stage.endpoint.port)):
        assert stage.ask("/healthz")[0] == 200


def test_a_client_that_sends_an_octet_now_and_then_is_hung_up_on_in_time() -> None:
    stage = Stage(request_seconds=0.5)
    with stage.endpoint, socket.create_connection(("127.0.0.1", stage.endpoint.port), timeout=10) as client:
        client.settimeout(0.05)
        for _ in range(200):  # ten seconds at least, if nobody hangs up
            try:
                client.send(b"G")
                if client.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        pytest.fail("it is still served")


def test_however_many_come_and_say_nothing_there_are_few_threads_and_a_probe_is_answered_at_once() -> None:
    stage, held = Stage(request_seconds=60.0), list[socket.socket]()
    before = threading.active_count()
    with stage.endpoint:
        try:
            for _ in range(MOST_AT_ONCE + 8):
                held.append(socket.create_connection(("127.0.0.1", stage.endpoint.port), timeout=30))
            assert [each.recv(1) for each in held[:8]] == [b""] * 8, "the oldest make room"
            assert any(_answered(stage) for _ in range(10))
            most, deadline = before + 1 + 2 * MOST_AT_ONCE, time.monotonic() + 30  # the server's own, and a timer each
            while threading.active_count() > most and time.monotonic() < deadline:
                time.sleep(0.01)  # a thread gives its place up shortly before it ends
            assert threading.active_count() <= most
        finally:
            for each in held:
                each.close()


def test_an_oldest_request_that_cannot_be_ended_does_not_keep_the_others() -> None:
    stage, held = Stage(), list[socket.socket]()
    stage.hangs = threading.Event()
    with stage.endpoint:
        try:
            for number in range(MOST_AT_ONCE):
                held.append(socket.create_connection(("127.0.0.1", stage.endpoint.port), timeout=30))
                if number == 0:
                    held[0].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert any(_answered(stage, "/readyz") for _ in range(10))
        finally:
            stage.hangs.set()
            for each in held:
                each.close()


def test_a_machine_that_had_no_threads_left_for_a_while_costs_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()

    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with stage.endpoint:
        with monkeypatch.context() as machine:
            machine.setattr(threading.Thread, "start", none_left)
            for _ in range(MOST_AT_ONCE + 1):
                with socket.create_connection(("127.0.0.1", stage.endpoint.port), timeout=30) as client:
                    assert client.recv(1) == b""
        assert stage.ask("/healthz")[0] == 200


def _answered(stage: Stage, path: str = "/healthz") -> bool:
    try:
        return stage.ask(path)[0] == 200
    except (OSError, http.client.HTTPException):  # the thread of the one that made room is not free yet
        return False


def test_a_port_that_is_taken_is_said_with_the_remedy(stage: Stage) -> None:
    with pytest.raises(PermanentError, match="in use") as caught:
        HealthEndpoint(settings(stage.endpoint.port), alive=lambda: None, ready=lambda: None, samples=list)
    assert f"127.0.0.1 port {stage.endpoint.port} for" in caught.value.message
    assert "a port of its own" in (caught.value.hint or "")


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(PermanentError, match=r"192\.0\.2\.1"):
        HealthEndpoint(settings(free_port(), "192.0.2.1"), alive=lambda: None, ready=lambda: None, samples=list)


def test_the_port_opens_without_a_question_to_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(socket, "getfqdn", asked.append)
    HealthEndpoint(settings(free_port(), "0.0.0.0"), alive=lambda: None, ready=lambda: None, samples=list).close()
    assert asked == []


def test_the_port_is_free_again_afterwards(stage: Stage) -> None:
    port = free_port()
    for _ in range(2):
        with HealthEndpoint(settings(port), alive=lambda: None, ready=lambda: None, samples=list):
            pass
