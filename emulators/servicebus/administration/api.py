"""The management API without sockets: requests to answers, as the SDKs' administration clients speak.

Every request but `GET /health`, and `GET /` without an api-version, must carry a shared access signature of a policy with the
Manage right. Forwarding asks for a signature for its destination as well: in a header of its own, or the request's own when that covers it.
Updates say `If-Match: *`; entities have no versions here, so that any other value does not match (412).

Source: https://learn.microsoft.com/rest/api/servicebus/.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

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
from emulators.servicebus.rules.description import CorrelationFilter
from emulators.servicebus.sas import AccessPolicies, InvalidToken

from . import atom, atom_rules, feed
from .atom_elements import API_VERSIONS
from .targets import Target, read_target

MAX_PAGE: Final = 100
_ATOM: Final = "application/atom+xml;type=entry;charset=utf-8"
_XML: Final = "application/xml; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"
_FORWARDING: Final = (
    ("forward_to", "servicebussupplementaryauthorization"),
    ("forward_dead_lettered_messages_to", "servicebusdlqsupplementaryauthorization"),
)
_T = TypeVar("_T")

Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: HTTP status, body, content type."""

    status: int
    body: bytes = b""
    content_type: str = _ATOM


@dataclass(frozen=True, slots=True)
class Request:
    """One request, after its signature was accepted. `headers` by lower-case name."""

    method: str
    path: str
    query: Query
    headers: Mapping[str, str]
    body: bytes
    base: str

    @property
    def updates(self) -> bool:
        return "if-match" in self.headers

    @property
    def version(self) -> str:
        return self.query.get("api-version", [API_VERSIONS[-1]])[0]

    def page(self) -> tuple[int, int]:
        """`$skip` and `$top`. Raises InvalidEntity."""
        try:
            skip, top = int(self.query.get("$skip", ["0"])[0]), int(self.query.get("$top", [str(MAX_PAGE)])[0])
        except ValueError:
            raise InvalidEntity("$skip and $top are whole numbers") from None
        if skip < 0 or top < 1:
            raise InvalidEntity("$skip is at least 0, $top at least 1")
        return skip, min(top, MAX_PAGE)

    def cut(self, items: Sequence[_T]) -> tuple[Sequence[_T], str, str | None]:
        """The page asked for, its address and the next one's, if there is one. Raises InvalidEntity."""
        skip, top = self.page()
        here = f"{self.base}{self.path}"
        more = f"{here}?$skip={skip + top}&$top={top}" if skip + top < len(items) else None
        return items[skip : skip + top], f"{here}?$skip={skip}&$top={top}", more


class _Unauthorized(Exception):
    """The request carries no signature that allows it; the text says which part failed, never the signature."""


class _VersionMismatch(Exception):
    """The request is for a version of the entity that does not exist."""


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
    """The whole management API as one function, `answer`. `scheme`: of the addresses in its documents.

    `page` renders, from the query, what `GET /` shows to whom is no client of the API: those state its version.
    """

    def __init__(
        self,
        admin: EntityAdmin,
        authorize: Callable[[str | None, str], None],
        *,
        namespace: str,
        scheme: str = "http",
        page: Callable[[Query], str] | None = None,
    ) -> None:
        self._admin = admin
        self._authorize = authorize
        self._namespace = namespace
        self._scheme = scheme
        self._page = page
        self._created = datetime.now(UTC)

    def answer(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Never raises for what a caller can get wrong: that is a 4xx with the service's error body."""
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        known = {name.lower(): value for name, value in headers.items()}
        if method == "GET" and parts.path == "/health":
            return Answer(200, b'{"status":"healthy","message":"Service is healthy"}', "application/json")
        try:
            if method == "GET" and parts.path == "/" and self._page is not None and "api-version" not in query:
                return Answer(200, self._page(query).encode(), _HTML)
            self._authorize(known.get("authorization"), parts.path)
            base = f"{self._scheme}://{known.get('host', self._namespace)}"
            return self._dispatch(Request(method, parts.path, query, known, body, base))
        except _Unauthorized as error:
            return refusal(401, str(error))
        except InvalidEntity as error:
            return refusal(400, str(error))
        except EntityMissing as error:
            return refusal(404, str(error) or "the entity does not exist")
        except EntityExists as error:
            return refusal(409, str(error) or "the entity exists already")
        except _VersionMismatch as error:
            return refusal(412, str(error))

    def _dispatch(self, request: Request) -> Answer:
        if request.version not in API_VERSIONS:
            raise InvalidEntity(f"api-version {request.version} is not supported: {', '.join(API_VERSIONS)} are")
        writer = atom.EntityWriter(request.base, request.version, self._filter_counts)
        lowered = request.path.lower()
        if lowered == "/$namespaceinfo" and request.method == "GET":
            entry = atom.namespace_entry(self._namespace, self._created, request.base + request.path)
            return Answer(200, entry)
        if lowered.startswith("/$resources/") and request.method == "GET":
            return self._list(request, writer, lowered.removeprefix("/$resources/").rstrip("/"))
        target = read_target(request.path)
        if request.headers.get("if-match", "*") != "*":
            raise _VersionMismatch("If-Match: only * matches, entities have no versions here")
        if target.rules:
            return self._rules(request, target)
        if target.lists_subscriptions:
            if request.method != "GET":
                return _not_here(request)
            return self._list(request, writer, "subscriptions", target.entity)
        return self._entity(request, target, writer)

    # -- entities

    def _entity(self, request: Request, target: Target, writer: atom.EntityWriter) -> Answer:
        if request.method == "GET":
            return Answer(200, writer.entry(self._admin.get(target.path)))
        if request.method == "DELETE":
            self._admin.delete(target.path)
            return Answer(200)
        if request.method != "PUT":
            return _not_here(request)
        host = urlsplit(request.base).netloc
        if request.updates:
            current = self._admin.get(target.path)
            changed = atom.read_description(request.body, request.version, current.description, host=host).settings
            self._check_forwarding(request, changed)
            return Answer(200, writer.entry(self._admin.update(current.path, changed)))
        asked = atom.read_description(request.body, request.version, host=host)
        _check_kind(target, asked.settings)
        self._check_forwarding(request, asked.settings)
        return Answer(201, writer.entry(self._admin.create(target.path, asked.settings, asked.default_rule)))

    def _check_forwarding(self, request: Request, description: Description) -> None:
        own = request.headers.get("authorization")
        for setting, header in _FORWARDING:
            destination = getattr(description, setting, None)
            if destination:
                self._authorize(request.headers.get(header, own), destination)

    def _list(self, request: Request, writer: atom.EntityWriter, kind: str, topic: str | None = None) -> Answer:
        if topic is not None:
            self._expect(topic, TopicDescription)
            infos = self._admin.subscriptions(topic)
        elif kind == "queues":
            infos = self._admin.queues()
        elif kind == "topics":
            infos = self._admin.topics()
        else:
            raise InvalidEntity(f"{request.path!r} is not a list: queues and topics are")
        page, here, more = request.cut(sorted(infos, key=lambda info: info.path.lower()))
        return Answer(200, writer.page(kind.capitalize(), page, here, more))

    def _expect(
        self, path: str, kind: type[QueueDescription | TopicDescription | SubscriptionDescription]
    ) -> EntityInfo:
        info = self._admin.get(path)
        if not isinstance(info.description, kind):
            raise EntityMissing(f"{path} is not a {kind.__name__.removesuffix('Description').lower()}")
        return info

    def _filter_counts(self, topic: EntityInfo) -> atom.FilterCounts:
        rules = [rule for found in self._admin.subscriptions(topic.path) for rule in self._admin.rules(found.path)]
        correlation = sum(isinstance(rule.description.filter, CorrelationFilter) for rule in rules)
        return atom.FilterCounts(len(rules) - correlation, correlation)

    # -- rules

    def _rules(self, request: Request, target: Target) -> Answer:
        path = self._expect(target.path, SubscriptionDescription).path
        link, name = f"{request.base}/{path}/Rules", target.rule
        if name is None:
            if request.method != "GET":
                return _not_here(request)
            rules = sorted(self._admin.rules(path), key=lambda rule: rule.name.lower())
            page, here, more = request.cut(rules)
            return Answer(200, atom_rules.rule_feed(page, link, self_link=here, next_link=more))
        if request.method == "GET":
            return Answer(200, atom_rules.rule_entry(self._admin.rule(path, name), link))
        if request.method == "DELETE":
            self._admin.delete_rule(path, name)
            return Answer(200)
        if request.method != "PUT":
            return _not_here(request)
        stated, rule = atom_rules.read_rule(request.body)
        if stated is not None and stated.lower() != name.lower():
            raise InvalidEntity(f"the rule is {name!r} in the path, but {stated!r} in the body")
        if request.updates:
            return Answer(200, atom_rules.rule_entry(self._admin.update_rule(path, name, rule), link))
        return Answer(201, atom_rules.rule_entry(self._admin.create_rule(path, name, rule), link))


def refusal(status: int, detail: str) -> Answer:
    """An error as the service words it."""
    return Answer(status, feed.error_body(status, detail), _XML)


def _not_here(request: Request) -> Answer:
    return refusal(405, f"{request.method} is not supported here")


def _check_kind(target: Target, description: Description) -> None:
    is_subscription = isinstance(description, SubscriptionDescription)
    if is_subscription != (target.subscription is not None):
        raise InvalidEntity(f"a {type(description).__name__} cannot be created at {target.path!r}")
