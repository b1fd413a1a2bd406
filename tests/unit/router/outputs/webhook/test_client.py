"""What is said of a request that the library refuses to make: nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from router.outputs.webhook.client import Client, Lost
from router.outputs.webhook.settings import WebhookSettings

URL = "https://h.example/in"


def refusing(error: Exception) -> Callable[..., httpx.AsyncClient]:
    def made(**how: object) -> httpx.AsyncClient:
        raise error

    return made


@pytest.mark.parametrize(
    "error",
    [
        httpx.LocalProtocolError("Illegal header value b'secret-7 '"),
        httpx.InvalidURL("Invalid port: 'secret-7'"),
        ValueError("Unknown scheme for proxy URL URL('secret-7')"),
    ],
)
def test_a_request_that_cannot_be_made_is_said_without_its_text(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    client = Client(WebhookSettings(type="webhook", url=URL))
    monkeypatch.setattr(httpx, "AsyncClient", refusing(error))
    with pytest.raises(Lost, match=type(error).__name__) as raised:
        asyncio.run(client.exchange("POST", URL, {}, b""))
    assert "secret-7" not in f"{raised.value!r}{raised.value}{raised.value.hint}"
    assert raised.value.__suppress_context__


def test_an_address_that_cannot_be_is_said_without_its_text() -> None:
    client = Client(WebhookSettings(type="webhook", url=URL))
    with pytest.raises(Lost) as raised:
        asyncio.run(client.reach("https://h.example:secret-7/"))
    assert "secret-7" not in f"{raised.value!r}{raised.value}{raised.value.hint}"
