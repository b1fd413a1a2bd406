"""The port of health and metrics, asked over real HTTP."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator

import pytest

from common.errors import PermanentError
from common.health import HealthEndpoint
from common.health_settings import HealthSettings
from common.metrics import Metric

UP = Metric("dstream_test_up", "gauge", "Whether it is.")


class Stage:
    """What an endpoint tells of."""

    def __init__(self) -> None:
        self.ill: str | None = None
        self.busy: str | None = None
        self.broken = False
        self.endpoint = HealthEndpoint(
            settings(free_port()),
            alive=lambda: self.ill,
            ready=lambda: self.busy,
            samples=lambda: [UP(1 / (not self.broken))],
        )

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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    assert stage.ask("/")[:2] == (404, "there are /healthz, /readyz, /metrics\n")
    status, text, headers = stage.ask("/healthz", "POST")
    assert (status, text, headers["Allow"]) == (405, "only GET and HEAD\n", "GET, HEAD")


def test_head_is_answered_without_a_body(stage: Stage) -> None:
    status, text, headers = stage.ask("/healthz", "HEAD")
    assert (status, text, headers["Content-Length"]) == (200, "", "3")


def test_a_client_that_says_nothing_holds_up_nobody(stage: Stage) -> None:
    with socket.create_connection(("127.0.0.1", stage.endpoint.port)):
        assert stage.ask("/healthz")[0] == 200


def test_a_port_that_is_taken_is_said_with_the_remedy(stage: Stage) -> None:
    with pytest.raises(PermanentError, match="in use") as caught:
        HealthEndpoint(settings(stage.endpoint.port), alive=lambda: None, ready=lambda: None, samples=list)
    assert f"127.0.0.1 port {stage.endpoint.port} for" in caught.value.message
    assert "a port of its own" in (caught.value.hint or "")


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(PermanentError, match=r"192\.0\.2\.1"):
        HealthEndpoint(settings(free_port(), "192.0.2.1"), alive=lambda: None, ready=lambda: None, samples=list)


def test_the_port_is_free_again_afterwards(stage: Stage) -> None:
    port = free_port()
    for _ in range(2):
        with HealthEndpoint(settings(port), alive=lambda: None, ready=lambda: None, samples=list):
            pass
