"""The one owner of httpx here: requests to the nodes of a cluster, each with a deadline for the whole, and its faults in plain words.

httpx bounds each read and each write by itself, so that a server which sends an octet now and then would hold a call for ever. A deadline here
is for the whole exchange: when it is over, the exchange is cancelled, and its connection closed. What was not sent by then is never sent.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import logging
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from common.errors import ConfigurationError, TransientError
from router.outputs.elasticsearch.settings import ElasticsearchSettings, trust_of
from router.outputs.event_loop import LoopThread

_KEPT = 30.0
"""Seconds for which an idle connection is kept: less than what stands in front of clusters usually does."""
_LONGEST = 32 * 1024 * 1024
"""Octets of an answer. One to a chunk of a megabyte has some hundred kilobytes."""
_CLOSING = 2.0
_TOO_SHORT = 0.05
"""Seconds for which no other node is asked."""
_SLACK = 0.25
"""Seconds, so that the words of the exchange come first."""

LINES = "application/x-ndjson"
JSON = "application/json"

for _each in ("httpx", "httpcore"):
    # They log each address and each header, with its key.
    logging.getLogger(_each).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes

    def json(self) -> Any:
        """Raises ValueError."""
        return json.loads(self.body)


class Client:
    """Callable from any thread. Making one opens nothing. Every request may be repeated, so a node that fails is passed over for the next one."""

    def __init__(self, settings: ElasticsearchSettings) -> None:
        """Raises ConfigurationError for a file that cannot be used."""
        self._urls, self._compress = settings.urls, settings.compress
        self._headers = {"user-agent": f"dstream/{version('dstream-cdc')}", "accept-encoding": "identity"}
        self._headers |= _authorization(settings)
        self._at = 0
        self._loop = LoopThread(f"elasticsearch-{settings.name}")
        self._client: httpx.AsyncClient | None = None
        try:
            self._trust = trust_of(settings)
        except OSError as error:
            raise ConfigurationError(
                [f"output {settings.name}: ca_file or client_certificate cannot be used: {error}"]
            ) from error

    def __repr__(self) -> str:
        return f"<Client {', '.join(self._urls)}>"

    def request(
        self, method: str, path: str, body: bytes | None = None, *, kind: str = JSON, until: float, doing: str
    ) -> Response:
        """`path`: begins with `/`. `until`: a moment of `time.monotonic`. Raises TransientError, which begins with `doing`."""
        headers = {} if body is None else {"content-type": kind}
        if body is not None and self._compress:
            body, headers["content-encoding"] = gzip.compress(body, 1), "gzip"
        work = self._anywhere(method, path, body, headers, until, doing)
        return self._loop.call(work, seconds=until - time.monotonic() + _SLACK, doing=doing)

    def cut(self) -> None:
        self._loop.cut()

    def close(self) -> None:
        """Waits a few seconds at most."""
        with suppress(TransientError):
            if self._client is not None:
                self._loop.cut()
                self._loop.call(self._release(), seconds=_CLOSING, doing="closing connections")
        self._client = None
        self._loop.close()

    async def _anywhere(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], until: float, doing: str
    ) -> Response:
        """One node after the other, each with its share of the time; and one more try, because a connection that was idle may just be closed."""
        for tries in range(len(self._urls), -1, -1):
            node = self._at
            share = (until - time.monotonic()) / max(tries, 1)
            try:
                async with asyncio.timeout(share):
                    return await self._exchange(method, self._urls[node] + path, body, headers)
            except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
                self._at = (node + 1) % len(self._urls)
                if tries == 0 or until - time.monotonic() < _TOO_SHORT:
                    words, hint = _fault(error, share)
                    host = urlsplit(self._urls[node]).netloc
                    raise TransientError(f"{doing}: {host}: {words}", hint=hint) from error
        raise AssertionError("there is no node")

    async def _exchange(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
        client = self._opened()
        response = await client.send(client.build_request(method, url, headers=headers, content=body), stream=True)
        try:
            read = bytearray()
            async for piece in response.aiter_raw():
                read += piece
                if len(read) > _LONGEST:
                    raise httpx.DecodingError(f"its answer is longer than {_LONGEST} bytes")
        finally:
            with suppress(httpx.HTTPError, OSError):
                await response.aclose()
        return Response(response.status_code, bytes(read))

    def _opened(self) -> httpx.AsyncClient:
        """Only called inside the event loop."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=self._trust,
                headers=self._headers,
                timeout=None,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_KEPT),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    async def _release(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(httpx.HTTPError, OSError):
                await client.aclose()


def _authorization(settings: ElasticsearchSettings) -> Mapping[str, str]:
    if settings.api_key is not None:
        return {"authorization": f"ApiKey {settings.api_key.get_secret_value()}"}
    if settings.bearer_token is not None:
        return {"authorization": f"Bearer {settings.bearer_token.get_secret_value()}"}
    if settings.username is not None and settings.password is not None:
        both = f"{settings.username}:{settings.password.get_secret_value()}".encode()
        return {"authorization": f"Basic {base64.b64encode(both).decode()}"}
    return {}


def _fault(error: Exception, share: float) -> tuple[str, str | None]:
    """What happened and what to do, without an address or a header."""
    if isinstance(error, TimeoutError):
        return (
            f"no answer within {share:.1f} s",
            "look at the cluster's health and at what is in between; timeout is how long a send may take",
        )
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = (
                "name the authority's certificate as ca_file (Elasticsearch: http_ca.crt), or correct the host in urls"
            )
            return f"its certificate is not trusted: {cause.verify_message}", hint
        if isinstance(cause, ssl.SSLError):
            return (
                f"TLS failed: {cause.reason or 'no reason'}",
                "check whether urls must begin with https:// or http://, and client_certificate",
            )
    system = next((cause for cause in _causes(error) if isinstance(cause, OSError) and cause.strerror), None)
    words = str(system.strerror) if system is not None else str(error) or type(error).__name__
    return f"the connection failed: {words}", "check urls, and whether the node runs"


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        if isinstance(error, BaseExceptionGroup):
            found += [each for each in error.exceptions if each not in found]
        error = error.__cause__ or error.__context__
    return found
