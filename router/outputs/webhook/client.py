"""The one owner of httpx here: a pool of connections in the event loop, one exchange with a deadline, and its faults in plain words.

httpx bounds each read and each write by itself, so that a server which sends an octet now and then would hold a call for ever. A deadline here
is for the whole exchange: when it is over, the exchange is cancelled, and its connection closed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from common.errors import TransientError
from router.outputs.webhook.answers import Answer
from router.outputs.webhook.settings import WebhookSettings, load_certificate

_KEPT = 4.0
"""Seconds for which an idle connection is kept: Node.js closes it after five."""
_MOST_READ = 65_536
"""Octets of an answer's body that are read, so that its connection can be used again."""
_MOST_READING = 1.0
"""Seconds for that. The status has come by then, and it alone is the answer."""

_WRAPPED = 6
"""So many layers of the libraries are looked into at most for what parses answers."""

for _each in ("httpx", "httpcore"):
    # They log each address, with its query, and each header, with its key.
    logging.getLogger(_each).setLevel(logging.WARNING)


class Lost(TransientError):
    """There was no answer. `ended`: the receiver has closed the connection, as it may do with one that was idle."""

    def __init__(self, message: str, *, hint: str | None = None, ended: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.ended = ended


class Client:
    """To be used inside the event loop; making one opens nothing."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._trust = _trust(settings)
        self._client: httpx.AsyncClient | None = None

    async def exchange(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """Raises Lost, also when the time is up."""
        try:
            client = self._opened()
            async with asyncio.timeout(self._settings.seconds):
                request = client.build_request(method, url, headers=headers, content=body)
                response = await client.send(request, stream=True)
        except TimeoutError as error:
            raise Lost(f"no answer within {self._settings.seconds:g} s", hint=_TIMEOUT_HINT) from error
        except (httpx.LocalProtocolError, httpx.InvalidURL, ValueError) as error:
            # their texts quote the header or the address at fault, which may be secret
            words = f"the request cannot be made ({type(error).__name__})"
            raise Lost(words, hint="check url, query, proxy and headers") from None
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise _lost(error) from error
        try:
            await _drain(response)
        finally:
            with suppress(httpx.HTTPError, OSError):
                await response.aclose()
        return Answer(response.status_code, response.headers.get("retry-after"), response.headers.get("location"))

    async def reach(self, url: str) -> None:
        """Connect to the host of `url`, or to the proxy, and send nothing. Raises Lost."""
        proxy = self._settings.proxy
        try:
            parts = urlsplit(url if proxy is None else proxy.get_secret_value())
            tls = parts.scheme == "https"
            port = parts.port or (443 if tls else 80)
            async with asyncio.timeout(self._settings.seconds):
                _, writer = await asyncio.open_connection(parts.hostname, port, ssl=self._trust if tls else None)
        except TimeoutError as error:
            raise Lost(f"cannot connect within {self._settings.seconds:g} s", hint=_TIMEOUT_HINT) from error
        except OSError as error:
            raise _lost(error) from error
        except ValueError as error:
            words = f"the address cannot be used ({type(error).__name__})"
            raise Lost(words, hint="check url and proxy") from None
        writer.transport.abort()

    async def close(self) -> None:
        client = self.forget()
        if client is not None:
            with suppress(httpx.HTTPError, OSError):
                await client.aclose()

    def forget(self) -> httpx.AsyncClient | None:
        """The next exchange opens a new pool."""
        client, self._client = self._client, None
        return client

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=self._trust,
                proxy=self._proxy(),
                headers={"user-agent": f"dstream/{version('dstream-cdc')}", "accept-encoding": "identity"},
                timeout=None,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEPT),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    def _proxy(self) -> httpx.Proxy | None:
        if self._settings.proxy is None:
            return None
        address = self._settings.proxy.get_secret_value()
        return httpx.Proxy(address, ssl_context=self._trust if address.startswith("https:") else None)


_TIMEOUT_HINT = "the receiver should answer at once and do slow work afterwards; timeout is how long it may take"
_TLS_HINT = "check that url begins as the receiver expects, client_certificate, and ca_file"


def _trust(settings: WebhookSettings) -> ssl.SSLContext:
    """Raises OSError for a file that cannot be used."""
    context = ssl.create_default_context(cafile=settings.ca_file)
    load_certificate(context, settings)
    return context


async def _drain(response: httpx.Response) -> None:
    """Read what is left, so that the connection can be used again; it is closed when that is much, or takes long, or more comes behind it: that
    would be taken for the answer to the next request."""
    protocol, read = _protocol(response), 0
    if protocol is None or not isinstance(response.stream, httpx.AsyncByteStream):
        return
    with suppress(TimeoutError, httpx.HTTPError, OSError):
        async with asyncio.timeout(_MOST_READING):
            async for piece in response.stream:
                read += len(piece)
                if read > _MOST_READ:
                    return
        if protocol.trailing_data[0]:
            protocol.send_failed()  # a connection in this state is closed


def _protocol(response: httpx.Response) -> Any:
    """What parses the answers of this connection (h11.Connection). The libraries show it nowhere; where it is not found, each request has a
    connection of its own."""
    found: Any = response.stream
    for _ in range(_WRAPPED):
        protocol = getattr(getattr(found, "_connection", None), "_h11_state", None)
        if hasattr(protocol, "trailing_data") and hasattr(protocol, "send_failed"):
            return protocol
        found = getattr(found, "_stream", None) or getattr(found, "_httpcore_stream", None)
    return None


def _lost(error: Exception) -> Lost:
    """In words that hold no address: httpx's own may have the query."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            words = f"its certificate is not trusted: {cause.verify_message}"
            return Lost(words, hint="name the authority's certificate as ca_file, or correct the host in url")
        if isinstance(cause, ssl.SSLError):
            return Lost(f"TLS failed: {cause.reason or cause}", hint=_TLS_HINT)
    if isinstance(error, httpx.ProxyError):
        return Lost(f"the proxy refused: {error}", hint="check proxy, and what the proxy lets through")
    system = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror), None)
    words = f"{type(error).__name__}: {system.strerror}" if system is not None else str(error) or type(error).__name__
    ended = isinstance(error, (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError))
    return Lost(f"the connection failed: {words}", ended=ended)


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        if isinstance(error, BaseExceptionGroup):
            found += [each for each in error.exceptions if each not in found]
        error = error.__cause__ or error.__context__
    return found
