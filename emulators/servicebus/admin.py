"""The management API over HTTP: create, read, update, delete and list entities, as the SDKs' administration clients ask for it.

Own threads, so that a slow caller never holds up the broker's event loop; every change goes through `EntityAdmin`.
Every request but `GET /health` must carry a shared access signature of a policy with the Manage right.
It refuses rules other than `$Default` by name, and speaks plain HTTP only: put a proxy before it for TLS.

Sources: https://learn.microsoft.com/rest/api/servicebus/ (requests), and
https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules (names).
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from emulators.servicebus import atom
from emulators.servicebus.description import (
    Description,
    EntityAdmin,
    EntityExists,
    EntityInfo,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.sas import AccessPolicies, InvalidToken

MAX_BODY = 1 << 20
MAX_PAGE = 100
_XML = "application/atom+xml;type=entry;charset=utf-8"
_ENTITY_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?")
_SUBSCRIPTION_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: HTTP status, body, content type."""

    status: int
    body: bytes = b""
    content_type: str = _XML


class _Unauthorized(Exception):
    """The request carries no signature that allows it; the text says which part failed, never the signature."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: an entity, a subscription (with its topic in `entity`), or the rules of one."""

    entity: str
    subscription: str | None = None
    lists_subscriptions: bool = False
    rules: bool = False
    rule: str | None = None

    @property
    def path(self) -> str:
        return self.entity if self.subscription is None else f"{self.entity}/Subscriptions/{self.subscription}"


def read_target(path: str) -> Target:
    """`/orders`, `/orders/subscriptions[/name[/rules[/rule]]]`; entity names may hold slashes. Raises InvalidEntity."""
    parts = unquote(path).strip("/").split("/")
    marker = next((at for at, part in enumerate(parts) if at and part.lower() == "subscriptions"), len(parts))
    entity, rest = "/".join(parts[:marker]), parts[marker + 1 :]
    if marker == len(parts):
        return Target(entity)
    if not rest:
        return Target(entity, lists_subscriptions=True)
    if len(rest) == 1:
        return Target(entity, rest[0])
    if rest[1].lower() == "rules" and len(rest) <= 3:
        return Target(entity, rest[0], rules=True, rule=rest[2] if len(rest) == 3 else None)
    raise InvalidEntity(f"the path {path!r} names neither an entity nor a subscription nor a rule")


def check_names(target: Target) -> None:
    """Raises InvalidEntity when a name breaks the service's naming rules."""
    _check_name("queue or topic", target.entity, _ENTITY_NAME, 260, "letters, digits, '.', '-', '_' and '/'")
    if target.subscription is not None:
        _check_name("subscription", target.subscription, _SUBSCRIPTION_NAME, 50, "letters, digits, '.', '-' and '_'")


def _check_name(kind: str, name: str, allowed: re.Pattern[str], longest: int, words: str) -> None:
    if len(name) > longest:
        raise InvalidEntity(
            f"the {kind} name {name[:40]!r}... has {len(name)} characters; at most {longest} are allowed"
        )
    if not allowed.fullmatch(name):
        raise InvalidEntity(
            f"the {kind} name {name!r} is not allowed: {words}, beginning and ending with a letter or digit"
        )


class SasCheck:
    """Lets in who shows a shared access signature, with the Manage right, for what is asked for.

    `keys` maps policy names to keys; `manage` names the policies with the Manage right (None: all).
    """

    def __init__(
        self, keys: Mapping[str, str], manage: Collection[str] | None, now: Callable[[], float] = time.time
    ) -> None:
        managers = set(keys if manage is None else manage)
        self._policies = AccessPolicies(keys, {name: ("Manage",) if name in managers else () for name in keys})
        self._now = now

    def __call__(self, header: str | None, path: str) -> None:
        """Return when `header` allows managing `path`; raise _Unauthorized otherwise."""
        if header is None:
            raise _Unauthorized("40100: the request has no Authorization header")
        try:
            grant = self._policies.verify(header, self._now())
        except InvalidToken as error:
            raise _Unauthorized(f"40103: {error}") from None
        if not grant.covers(unquote(path).strip("/").lower(), self._now()):
            raise _Unauthorized("40102: the shared access signature is for another entity")
        if "Manage" not in grant.rights:
            raise _Unauthorized("40101: Manage,EntityRead claims required for this operation")


class AdminApi:
    """Requests to answers, without sockets: the whole management API as one function, `answer`."""

    def __init__(self, admin: EntityAdmin, authorize: Callable[[str | None, str], None], *, namespace: str) -> None:
        self._admin = admin
        self._authorize = authorize
        self._namespace = namespace
        self._created = datetime.now(UTC)

    def answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Never raises for what a caller can get wrong: that is a 4xx with the service's error body."""
        parts = urlsplit(url)
        if method == "GET" and parts.path == "/health":
            return Answer(200, b'{"status":"healthy","message":"Service is healthy"}', "application/json")
        try:
            self._authorize(headers.get("Authorization"), parts.path)
            base = f"http://{headers.get('Host', self._namespace)}"
            return self._dispatch(method, parts.path, parse_qs(parts.query), headers, body, base)
        except _Unauthorized as error:
            return self._error(401, str(error))
        except InvalidEntity as error:
            return self._error(400, str(error))
        except EntityMissing as error:
            return self._error(404, str(error) or "the entity does not exist")
        except EntityExists as error:
            return self._error(409, str(error) or "the entity exists already")

    @staticmethod
    def _error(status: int, detail: str) -> Answer:
        return Answer(status, atom.error_body(status, detail), "application/xml; charset=utf-8")

    def _dispatch(
        self,
        method: str,
        path: str,
        query: Mapping[str, Sequence[str]],
        headers: Mapping[str, str],
        body: bytes,
        base: str,
    ) -> Answer:
        if path.lower() == "/$namespaceinfo" and method == "GET":
            return Answer(200, atom.namespace_entry(self._namespace, self._created, base + path))
        if path.lower().startswith("/$resources/") and method == "GET":
            return self._list(path, query, base)
        target = read_target(path)
        check_names(target)
        if target.rules:
            return self._rules(method, target, query, base)
        if target.lists_subscriptions:
            return self._list(path, query, base, topic=target.entity) if method == "GET" else self._refuse(method)
        if method == "GET":
            return Answer(200, atom.entity_entry(self._admin.get(target.path), base))
        if method == "DELETE":
            self._admin.delete(target.path)
            return Answer(200)
        if method == "PUT":
            return self._put(target, body, base, update=headers.get("If-Match") is not None)
        return self._refuse(method)

    def _refuse(self, method: str) -> Answer:
        return self._error(405, f"{method} is not supported here")

    def _put(self, target: Target, body: bytes, base: str, *, update: bool) -> Answer:
        if update:
            current = self._admin.get(target.path)
            changed = atom.read_description(body, current.description)
            return Answer(200, atom.entity_entry(self._admin.update(current.path, changed), base))
        description = atom.read_description(body)
        self._check_kind(target, description)
        return Answer(201, atom.entity_entry(self._admin.create(target.path, description), base))

    @staticmethod
    def _check_kind(target: Target, description: Description) -> None:
        is_subscription = isinstance(description, SubscriptionDescription)
        if is_subscription != (target.subscription is not None):
            raise InvalidEntity(f"a {type(description).__name__} cannot be created at {target.path!r}")

    def _list(self, path: str, query: Mapping[str, Sequence[str]], base: str, topic: str | None = None) -> Answer:
        kind = path.rstrip("/").rpartition("/")[2].lower()
        if topic is not None:
            self._expect(topic, TopicDescription)
            infos = self._admin.subscriptions(topic)
        elif kind == "queues":
            infos = self._admin.queues()
        elif kind == "topics":
            infos = self._admin.topics()
        else:
            raise InvalidEntity(f"{path!r} is not a list: queues and topics are")
        skip, top = self._page(query)
        page = sorted(infos, key=lambda info: info.path.lower())
        more = f"{base}{path}?$skip={skip + top}&$top={top}" if skip + top < len(page) else None
        title, link = kind.capitalize(), f"{base}{path}?$skip={skip}&$top={top}"
        return Answer(200, atom.entity_feed(title, page[skip : skip + top], base=base, self_link=link, next_link=more))

    @staticmethod
    def _page(query: Mapping[str, Sequence[str]]) -> tuple[int, int]:
        try:
            skip, top = int(query.get("$skip", ["0"])[0]), int(query.get("$top", [str(MAX_PAGE)])[0])
        except ValueError:
            raise InvalidEntity("$skip and $top are whole numbers") from None
        if skip < 0 or top < 1:
            raise InvalidEntity("$skip is at least 0, $top at least 1")
        return skip, min(top, MAX_PAGE)

    def _expect(
        self, path: str, kind: type[QueueDescription | TopicDescription | SubscriptionDescription]
    ) -> EntityInfo:
        info = self._admin.get(path)
        if not isinstance(info.description, kind):
            raise EntityMissing(f"{path} is not a {kind.__name__.removesuffix('Description').lower()}")
        return info

    def _rules(self, method: str, target: Target, query: Mapping[str, Sequence[str]], base: str) -> Answer:
        info = self._expect(target.path, SubscriptionDescription)
        link = f"{base}/{info.path}/rules"
        name = target.rule or ""
        if method == "GET" and not name:
            skip, _ = self._page(query)
            return Answer(200, atom.default_rule_feed(info.created_at, link, empty=skip > 0))
        if method == "GET" and name.lower() == "$default":
            return Answer(200, atom.default_rule_entry(info.created_at, f"{link}/$Default"))
        if method == "GET":
            raise EntityMissing(f"the rule {name!r} does not exist on {info.path}")
        raise InvalidEntity(
            f"the rule {name!r} cannot be changed: this emulator supports $Default (all messages) and no other rule"
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BODY:
            self.close_connection = True
            answer = Answer(413, atom.error_body(413, f"a body may have {MAX_BODY} bytes"))
        else:
            server = cast(_Server, self.server)
            answer = server.api.answer(self.command, self.path, dict(self.headers.items()), self.rfile.read(length))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    # BaseHTTPRequestHandler finds a method by the verb's name.
    do_GET = do_PUT = do_DELETE = do_POST = _serve  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the caller sees every answer."""


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that closing does not wait for clients that keep theirs alive."""

    daemon_threads = False

    def __init__(self, address: tuple[str, int], api: AdminApi) -> None:
        self.api = api
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news here."""

    def hang_up(self) -> None:
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue


class AdminServer:
    """The management API on `host`:`port` (0: any free port; Microsoft's emulator uses 5300).

    `keys`: policy name to key; `manage`: the policies with the Manage right (None: all of them).
    """

    def __init__(
        self,
        admin: EntityAdmin,
        *,
        keys: Mapping[str, str],
        manage: Collection[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        namespace: str = "emulator",
    ) -> None:
        self._api = AdminApi(admin, SasCheck(keys, manage), namespace=namespace)
        self._address = (host, port)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port in use; raises RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the management server is not running")
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._server = _Server(self._address, self._api)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="servicebus-admin", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Hang up on everybody and free the port; safe to call twice."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is None or thread is None:
            return
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()
