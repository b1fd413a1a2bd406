"""Everything that holds for every request, before a route is chosen: who asks, how often, how much, and what every answer has.

Only this module and `session.py` let anybody in. A route that is added is behind it already.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from common.errors import unforeseen
from desk.console.guard import PROBES, Asked, Identity, check_csrf, check_host, check_origin, identity
from desk.console.http.problems import Refused, answered
from desk.console.http.served import Served
from desk.console.http.serving import CONNECTION
from desk.console.limits import client_of, network_of
from desk.console.refusals import Unauthenticated

log = structlog.get_logger(__name__)

API: Final = "/api/"
OPEN: Final = frozenset(
    (
        ("GET", "/api/v1/session"),
        ("POST", "/api/v1/session"),
        ("GET", "/api/v1/openapi.json"),
        ("HEAD", "/api/v1/openapi.json"),
    )
)
"""What needs nobody to be logged in. The page itself is open, too: it has nothing in it."""
SLASH: Final = "\ue02f"
"""Stands for a slash inside a name of a path, until the name is read: see `names.py`."""
_BODY_BYTES: Final = 512 * 1024
_OPEN_BODY_BYTES: Final = 64 * 1024
_BODY_SECONDS: Final = 15.0
_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)


@dataclass(slots=True)
class Knowledge:
    """What the guard asks for."""

    served: Served

    def token(self, given: str) -> str | None:
        return None if self.served.tokens is None else self.served.tokens.person(given)

    def session(self, cookie: str) -> str | None:
        tokens = self.served.tokens
        return None if tokens is None else tokens.named(self.served.sessions.holds(cookie, tokens.known()))

    def csrf(self, subject: str, given: str) -> bool:
        return self.served.sessions.is_csrf(subject, given)


@dataclass(slots=True)
class Gate:
    """ASGI, around the whole application."""

    app: ASGIApp
    served: Served
    body_seconds: float = _BODY_SECONDS
    knowledge: Knowledge = field(init=False)
    lookups: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64, "console-account"))
    """Many, as all who wait share one reading."""

    def __post_init__(self) -> None:
        self.knowledge = Knowledge(self.served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        request = secrets.token_hex(8)
        answer = Answer(send, request, api=scope["path"].startswith(API))
        try:
            receive = await self._admitted(scope, receive, request)
            await self.app(scope, receive, answer)
        except Exception as error:
            if not answer.begun:
                await answered(error, request)(scope, receive, answer)
            elif not answer.ended:  # nothing can be said any more, so the server must close the connection
                log.error("answer broken off", request=request, error=unforeseen(error), hint="report this line")
                raise

    async def _admitted(self, scope: Scope, receive: Receive, request: str) -> Receive:
        """Raises what is refused. Sets what routes know of the request."""
        asked = asked_of(scope)
        scope["path"] = decoded_path(scope)
        state: MutableMapping[str, Any] = scope.setdefault("state", {})
        state.update(request_id=request, address=asked.address, asked=asked, identity=None)
        check_host(self.served.access, asked)
        if not scope["path"].startswith(API):
            if scope["path"] not in PROBES:  # a probe may share its address with busy people
                self.served.limits.requests.take(network_of(asked.address))
            return receive
        check_origin(self.served.access, asked)
        if self.served.access.mode == "local":
            asked = replace(asked, user=await self._user(scope))
        open = (asked.method, scope["path"]) in OPEN
        found = state["identity"] = self._identity(asked, open=open)
        self.served.limits.requests.take(client_of(asked.address, found))
        if found is not None and (asked.method, scope["path"]) != ("POST", "/api/v1/session"):
            check_csrf(asked, found, self.knowledge)
        if not asked.changes:
            return receive
        return await self._with_body(asked, receive, _OPEN_BODY_BYTES if open else _BODY_BYTES)

    async def _user(self, scope: Scope) -> str:
        """Whose connection it is: looked up once, as it stays theirs. In a thread: a table of connections may be long."""
        kept: dict[str, str] = scope["state"].setdefault(CONNECTION, {})
        if "user" not in kept:
            client, server = scope.get("client") or ("unknown", 0), scope.get("server") or ("unknown", None)
            kept["user"] = await asyncio.get_running_loop().run_in_executor(
                self.lookups, self.served.user_at, (client[0], client[1]), server[1]
            )
        return kept["user"]

    def _identity(self, asked: Asked, *, open: bool) -> Identity | None:
        guesses = asked.one("authorization") is not None and self.served.access.login
        try:
            return identity(self.served.access, asked, self.knowledge, self.served.local_user)
        except Unauthenticated:
            if guesses:
                self.served.limits.logins.take(network_of(asked.address))
            if open:
                return None
            raise

    async def _with_body(self, asked: Asked, receive: Receive, most: int) -> Receive:
        """The whole body before a route is called, so that no route waits for a client."""
        length = asked.one("content-length")
        if length is not None and length.isascii() and length.isdecimal() and int(length[:18]) > most:
            raise _too_large(most)
        try:
            body = await asyncio.wait_for(_body(receive, most), self.body_seconds)
        except TimeoutError:
            raise Refused(
                408, "slow", f"the body did not arrive within {self.body_seconds:g} s", hint="send it in one go"
            ) from None
        kind = (asked.one("content-type") or "").partition(";")[0].strip().lower()
        if body and kind != "application/json":
            raise Refused(415, "type", "the body is not application/json", hint="send Content-Type: application/json")
        return _again(body, receive)


def _too_large(most: int) -> Refused:
    return Refused(413, "large", f"the body has more than {most} bytes", hint="ask for less at once")


async def _body(receive: Receive, most: int) -> bytes:
    parts, size, more = list[bytes](), 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "gone", "the client has gone before its body was sent")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


@dataclass(slots=True)
class Answer:
    """`send`, with the headers of every answer."""

    send: Callable[[Message], Awaitable[None]]
    request: str
    api: bool
    begun: bool = False
    ended: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            there = {name.lower() for name, _ in message.get("headers", [])}
            own = [*_HEADERS, (b"x-request-id", self.request.encode())]
            if self.api or b"cache-control" not in there:
                own.append((b"cache-control", b"no-store" if self.api else b"no-cache"))
                message["headers"] = [each for each in message["headers"] if each[0].lower() != b"cache-control"]
            message["headers"] = [*message.get("headers", []), *own]
        await self.send(message)
        self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)


def asked_of(scope: Scope) -> Asked:
    client = scope.get("client")
    return Asked(
        method=scope["method"],
        path=scope["path"],
        headers=tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]),
        address=client[0] if client else "unknown",
        scheme=scope.get("scheme", "http"),
    )


def decoded_path(scope: Scope) -> str:
    """The path with each of its parts decoded by itself: a slash that was encoded is part of a name."""
    raw: bytes | None = scope.get("raw_path")
    if not raw or b"%" not in raw:
        path: str = scope["path"]
        return path
    parts = (unquote_to_bytes(part).decode("utf-8", "replace") for part in raw.split(b"/"))
    return "/".join(part.replace("/", SLASH) for part in parts)
