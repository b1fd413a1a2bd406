"""Where the management API is, and what its errors mean."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ServiceRequestError
from azure.core.pipeline.transport import RequestsTransport
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, ProxyError

from common.errors import ConfigurationError, PermanentError, TransientError
from common.servicebus_address import read_address
from common.servicebus_management import _Redirected, management_address, management_error

KEY = ";SharedAccessKeyName=p;SharedAccessKey=k"


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


def answered(status: int) -> HttpResponseError:
    error = HttpResponseError(f"status {status}")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    "said",
    [
        "SubCode=40103: Invalid authorization token signature",
        "InvalidSignature: The token has an invalid signature.",
        "ExpiredToken: The token is expired.",
        "MalformedToken: malformed",
    ],
)
def test_a_wrong_key_is_told_from_a_missing_right(said: str) -> None:
    hint = management_error(ClientAuthenticationError(said), "creating q").hint or ""
    assert hint.startswith("check the policy's name and key")
    missing = management_error(ClientAuthenticationError("40101: Manage,EntityRead claims required"), "creating q")
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
    translation = management_error(ServiceRequestError(str(wrapped), error=wrapped), "creating q at host")
    assert isinstance(translation, TransientError)
    assert "management_endpoint" in (translation.hint or "")
    assert words in translation.message
    assert "Errno" not in str(translation)
    assert translation.hint


@pytest.mark.parametrize("error", [ClientAuthenticationError("no"), answered(401), answered(403)])
def test_a_missing_right_names_it_and_the_way_out(error: Exception) -> None:
    translation = management_error(error, "creating q")
    assert isinstance(translation, PermanentError)
    assert "Manage" in str(translation)
    assert 'provision = "none"' in str(translation)


@pytest.mark.parametrize(
    "error", [answered(500), answered(503), answered(429), answered(408), ServiceRequestError("no")]
)
def test_a_busy_or_absent_service_is_tried_again(error: Exception) -> None:
    assert isinstance(management_error(error, "creating q"), TransientError)


def test_a_refused_setting_is_permanent() -> None:
    assert isinstance(management_error(answered(400), "creating q"), PermanentError)


def test_a_retry_goes_where_the_first_attempt_went(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(RequestsTransport, "send", lambda self, request, **options: sent.append(request.url))
    request = SimpleNamespace(url="https://localhost:5672/a%20queue?enrich=false&api-version=2021-05")
    transport = _Redirected("http", "localhost:5300")
    transport.send(request)
    transport.send(request)
    assert sent == ["http://localhost:5300/a%20queue?enrich=false&api-version=2021-05"] * 2


def test_a_proxy_that_refuses_is_told_as_the_proxy() -> None:
    inner = OSError("Tunnel connection failed: 407 Proxy Authentication Required")
    proxys = requests.exceptions.ProxyError(MaxRetryError(HTTPConnectionPool("h"), "/", ProxyError("no way", inner)))
    told = management_error(ServiceRequestError(proxys, error=proxys), "creating q")
    assert isinstance(told, TransientError)
    assert told.message == f"creating q: the proxy does not let the request through: {inner}"
    assert "proxy in the configuration" in (told.hint or "")
