"""Where the management API is, and what its errors mean."""

from __future__ import annotations

import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.core.pipeline.transport import RequestsTransport
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError, ProxyError, ReadTimeoutError

from common.azure_amqp.address import Proxy, Way, read_address
from common.errors import ConfigurationError, PermanentError, TransientError
from common.servicebus.management import _Redirected, management_address, management_error

KEY = ";SharedAccessKeyName=p;SharedAccessKey=k"
AT = read_address(f"Endpoint=sb://ns.servicebus.windows.net/{KEY}")


@pytest.mark.parametrize(
    ("connection_string", "endpoint", "expected"),
    [
        (f"Endpoint=sb://ns.servicebus.windows.net/{KEY}", None, ("https", "ns.servicebus.windows.net")),
        (f"Endpoint=sb://localhost:5672{KEY};UseDevelopmentEmulator=true", None, ("http", "localhost:5300")),
        (f"Endpoint=sb://[::1]:5672{KEY};UseDevelopmentEmulator=true", None, ("http", "[::1]:5300")),
        (
            f"Endpoint=sb://localhost{KEY};UseDevelopmentEmulator=true",
            "http://localhost:9/",
            ("http", "localhost:9"),
        ),
        (f"Endpoint=sb://ns.servicebus.windows.net{KEY}", "https://proxy:8443", ("https", "proxy:8443")),
    ],
)
def test_the_management_api_is_found(connection_string: str, endpoint: str | None, expected: tuple[str, str]) -> None:
    assert management_address(read_address(connection_string), endpoint) == expected


@pytest.mark.parametrize("endpoint", ["localhost:5300", "amqp://x", "http://", "http://host/path"])
def test_an_endpoint_that_is_no_address_is_refused(endpoint: str) -> None:
    address = read_address(f"Endpoint=sb://ns.servicebus.windows.net{KEY}")
    with pytest.raises(ConfigurationError, match="management_endpoint"):
        management_address(address, endpoint)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def answered(status: int) -> HttpResponseError:
    error = HttpResponseError(f"status {status}")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    "said",
    [
        "SubCode=40103: Invalid authorization token signature",
        "InvalidSignature: The token has an invalid signature.",
        "MalformedToken: malformed",
    ],
)
def test_a_wrong_key_is_told_from_a_missing_right(said: str) -> None:
    hint = management_error(ClientAuthenticationError(said), "creating q", AT).hint or ""
    assert hint.startswith("check the policy's name and key")
    missing = management_error(ClientAuthenticationError("40101: Manage,EntityRead claims required"), "creating q", AT)
    assert "Manage right" in (missing.hint or "")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "cannot be resolved"),
        (ConnectionRefusedError(111, "Connection refused"), "refuses connections"),
        (TimeoutError("timed out"), "no answer from"),
    ],
)
def test_a_service_that_cannot_be_reached_is_told_in_plain_words(cause: OSError, words: str) -> None:
    wrapped = requests.ConnectionError(MaxRetryError(HTTPConnectionPool("host"), "/", cause))
    translation = management_error(ServiceRequestError(str(wrapped), error=wrapped), "creating q at host", AT)
    assert isinstance(translation, TransientError)
    assert "management_endpoint" in (translation.hint or "")
    assert words in translation.message
    assert "Errno" not in str(translation)
    assert translation.hint


def test_the_services_words_come_without_their_envelope() -> None:
    detail = "40103: the token has an invalid signature. TrackingId:1"
    error = HttpResponseError(
        f"Operation returned an invalid status\nContent: <Error><Code>401</Code><Detail>{detail}</Detail></Error>"
    )
    error.status_code = 401
    who = "the policy p of ns.servicebus.windows.net"
    told = management_error(error, "creating q", AT)
    assert told.message == f"creating q: {who} is refused: wrong key, or no such policy (status 401: {detail})"


@pytest.mark.parametrize("error", [ClientAuthenticationError("no"), answered(401), answered(403)])
def test_a_missing_right_names_it_and_the_way_out(error: Exception) -> None:
    translation = management_error(error, "creating q", AT)
    assert isinstance(translation, PermanentError)
    assert "Manage" in str(translation)
    assert 'provision = "none"' in str(translation)


@pytest.mark.parametrize(
    "error", [answered(500), answered(503), answered(429), answered(408), ServiceRequestError("no")]
)
def test_a_busy_or_absent_service_is_tried_again(error: Exception) -> None:
    assert isinstance(management_error(error, "creating q", AT), TransientError)


def test_a_refused_setting_is_permanent() -> None:
    assert isinstance(management_error(answered(400), "creating q", AT), PermanentError)


def test_a_retry_goes_where_the_first_attempt_went(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(RequestsTransport, "send", lambda self, request, **options: sent.append(request.url))
    request = SimpleNamespace(url="https://localhost:5672/a%20queue?enrich=false&api-version=2021-05")
    transport = _Redirected("http", "localhost:5300")
    transport.send(request)
    transport.send(request)
    assert sent == ["http://localhost:5300/a%20queue?enrich=false&api-version=2021-05"] * 2


PROXY = Proxy("proxy.corp", 3128, "user", "hunter2-hunter2")
NAME = "the proxy proxy.corp:3128"
POOL: Any = HTTPConnectionPool("h")
TUNNEL = "Tunnel connection failed: 407 Proxy Authentication Required"


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (ProxyError("no", OSError(TUNNEL)), f"{NAME} does not let the request through: {TUNNEL}"),
        (
            ProxyError("no", caused(NewConnectionError(POOL, "no"), ConnectionRefusedError())),
            f"{NAME} refuses connections",
        ),
        (ProxyError("no", caused(ConnectTimeoutError("no"), TimeoutError())), f"no answer from {NAME}"),
        (caused(NewConnectionError(POOL, "no"), socket.gaierror(-2, "no")), f"the name of {NAME} cannot be resolved"),
        (caused(ReadTimeoutError(POOL, "/", "no"), TimeoutError()), "no answer from the management API"),
    ],
    ids=["refuses", "nobody there", "silent", "no name", "behind it"],
)
def test_a_proxy_is_named_where_it_is_the_trouble(cause: Exception, words: str) -> None:
    error = requests.ConnectionError(MaxRetryError(HTTPConnectionPool("h"), "/", cause))
    told = management_error(ServiceRequestError(error, error=error), "creating q", replace(AT, way=Way(True, PROXY)))
    assert isinstance(told, TransientError)
    assert told.message == f"creating q: {words}"
    assert "proxy in the configuration" in (told.hint or "")
    assert "hunter2" not in str(told)
