"""What is in the namespace, as one page of HTML for people: `GET /` of the management API's port.

Without script, style sheets or anything else from elsewhere; everything that comes from a user is escaped. Bodies of messages
are never shown, only their sizes. Lists are cut: a hundred entities a page, and the first few of everything inside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final, Protocol
from urllib.parse import quote

from emulators.servicebus.description import EntityInfo, EntityMissing, InvalidEntity
from emulators.servicebus.durations import duration_text
from emulators.servicebus.rules.description import CorrelationFilter, FalseFilter, RuleDescription, RuleInfo, SqlFilter

PAGE: Final = 100
FEW: Final = 5
MANY: Final = 100
"""How many sessions, rules and dead letters are shown of an entity: among others, and when it is asked for alone."""
_LONGEST: Final = 300
"""Characters of a text, a reason or an expression, that are shown."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Messages by where they are. `active`: ready to be received."""

    active: int
    locked: int
    deferred: int
    scheduled: int
    dead_letters: int
    transfer_dead_letters: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session. `locked_until` is None while nobody owns it, `state_size` (octets) when it has no state."""

    id: str
    locked_until: datetime | None
    messages: int
    state_size: int | None


@dataclass(frozen=True, slots=True)
class DeadLetterView:
    """One dead letter, without its body; sizes in octets."""

    sequence: int
    enqueued_at: datetime
    size: int
    deliveries: int
    reason: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class EntityView:
    """One entity and the first few of what it holds; `sessions_in_all` and `rules_in_all` say how many there are."""

    info: EntityInfo
    counts: Counts
    senders: int
    receivers: int
    sessions: Sequence[SessionView]
    sessions_in_all: int
    rules: Sequence[RuleInfo]
    rules_in_all: int
    dead_letters: Sequence[DeadLetterView]


@dataclass(frozen=True, slots=True)
class Overview:
    """The namespace: how many clients are connected, what they spent in credits by kind, and the paths of its entities in order."""

    connections: int
    credits: Mapping[str, int]
    paths: Sequence[str]


class Inspection(Protocol):
    """What the page needs of the broker. Callable from any thread; no call holds up the broker for long."""

    def overview(self) -> Overview: ...

    def entity(self, path: str, most: int) -> EntityView:
        """With at most so many sessions, rules and dead letters. Raises EntityMissing."""
        ...


def render(inspection: Inspection, namespace: str, query: Mapping[str, Sequence[str]]) -> str:
    """The page: of all entities from `skip` on, or of the one that `entity` names. Raises InvalidEntity, EntityMissing."""
    overview = inspection.overview()
    wanted = query.get("entity", [None])[0]
    if wanted is not None:
        return _document(namespace, overview, '<p><a href="/">all entities</a></p>', [inspection.entity(wanted, MANY)])
    skip = _skip(query)
    views = list(_views(inspection, overview.paths[skip : skip + PAGE]))
    return _document(namespace, overview, _pages(skip, len(overview.paths)), views)


def _skip(query: Mapping[str, Sequence[str]]) -> int:
    text = query.get("skip", ["0"])[0]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidEntity("skip is a whole number of at least 0")
    return int(text)


def _views(inspection: Inspection, paths: Iterable[str]) -> Iterable[EntityView]:
    for path in paths:
        try:
            yield inspection.entity(path, FEW)
        except EntityMissing:
            continue  # deleted since the overview


# -- the document

_STYLE: Final = (
    "body{font:15px/1.4 sans-serif;margin:2em}table{border-collapse:collapse;margin:.5em 0}"
    "th,td{border:1px solid #bbb;padding:.2em .6em;text-align:left;vertical-align:top}"
    "th{background:#eee}td.n{text-align:right}details{margin:0 0 1em 1em}summary{cursor:pointer}"
)


def _document(namespace: str, overview: Overview, navigation: str, views: Sequence[EntityView]) -> str:
    title = escape(f"Service Bus emulator: {namespace}")
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>",
            f"<p>{len(overview.paths)} entities, {overview.connections} connections.</p>",
            f"<p>Credits spent, as Standard counts them: {_credits(overview.credits)}.</p>",
            navigation,
            _counts_table(views),
            *(_details(view) for view in views),
            "</body></html>",
        )
    )


def _credits(spent: Mapping[str, int]) -> str:
    kinds = ", ".join(f"{count} {escape(kind)}" for kind, count in spent.items())
    return f"{sum(spent.values())} ({kinds})"


def _pages(skip: int, count: int) -> str:
    links = []
    if skip > 0:
        links.append(f'<a href="/?skip={max(skip - PAGE, 0)}">before</a>')
    if skip + PAGE < count:
        links.append(f'<a href="/?skip={skip + PAGE}">after</a>')
    shown = f"{min(skip + 1, count)} to {min(skip + PAGE, count)} of {count}"
    return f"<p>{shown} {' '.join(links)}</p>" if links else ""


_COUNTS: Final = (
    "entity",
    "kind",
    "active",
    "locked",
    "deferred",
    "scheduled",
    "dead letters",
    "transfer dead letters",
    "octets",
    "senders",
    "receivers",
    "settings other than the default",
)


def _counts_table(views: Sequence[EntityView]) -> str:
    return _table(_COUNTS, [_counts_row(view) for view in views]) if views else "<p>There is no entity here.</p>"


def _counts_row(view: EntityView) -> list[str | int]:
    counts, path = view.counts, view.info.path
    return [
        f'<a href="/?entity={escape(quote(path, safe=""))}">{escape(path)}</a>',
        _kind(view.info),
        counts.active,
        counts.locked,
        counts.deferred,
        counts.scheduled,
        counts.dead_letters,
        counts.transfer_dead_letters,
        view.info.counts.size_in_bytes,
        view.senders,
        view.receivers,
        _cell(", ".join(_settings(view.info))),
    ]


def _kind(info: EntityInfo) -> str:
    return type(info.description).__name__.removesuffix("Description").lower()


def _settings(info: EntityInfo) -> list[str]:
    default = type(info.description)()
    return [
        f"{field.name} {_text(getattr(info.description, field.name))}"
        for field in fields(info.description)
        if getattr(info.description, field.name) != getattr(default, field.name)
    ]


# -- what an entity holds


def _details(view: EntityView) -> str:
    parts = [part for part in (_sessions(view), _rules(view), _dead_letters(view)) if part]
    if not parts:
        return ""
    return f"<details open><summary>{escape(view.info.path)}</summary>{''.join(parts)}</details>"


def _sessions(view: EntityView) -> str:
    rows: list[list[str | int]] = [
        [
            _cell(session.id),
            "free" if session.locked_until is None else f"owned until {_text(session.locked_until)}",
            session.messages,
            "none" if session.state_size is None else session.state_size,
        ]
        for session in view.sessions
    ]
    titles = ("session", "lock", "messages", "octets of state")
    return _list("Sessions", titles, rows, view.sessions_in_all)


def _rules(view: EntityView) -> str:
    rows: list[list[str | int]] = [
        [_cell(rule.name), _cell(_filter(rule.description)), _cell(_action(rule.description))] for rule in view.rules
    ]
    return _list("Rules", ("rule", "filter", "action"), rows, view.rules_in_all)


def _filter(rule: RuleDescription) -> str:
    condition = rule.filter
    if isinstance(condition, SqlFilter):
        return _with_parameters(condition.expression, condition.parameters)
    if isinstance(condition, CorrelationFilter):
        names = (field.name for field in fields(condition) if field.name != "properties")
        given = {name: getattr(condition, name) for name in names if getattr(condition, name) is not None}
        return ", ".join(f"{name} = {value!r}" for name, value in (*given.items(), *condition.properties.items()))
    return "nothing" if isinstance(condition, FalseFilter) else "everything"


def _action(rule: RuleDescription) -> str:
    return "" if rule.action is None else _with_parameters(rule.action.expression, rule.action.parameters)


def _with_parameters(expression: str, parameters: Mapping[str, object]) -> str:
    given = ", ".join(f"{name} = {value!r}" for name, value in parameters.items())
    return f"{expression} ({given})" if given else expression


def _dead_letters(view: EntityView) -> str:
    rows: list[list[str | int]] = [
        [
            letter.sequence,
            _text(letter.enqueued_at),
            letter.deliveries,
            letter.size,
            _cell(letter.reason or ""),
            _cell(letter.description or ""),
        ]
        for letter in view.dead_letters
    ]
    titles = ("sequence number", "enqueued", "deliveries", "octets", "reason", "description")
    return _list("Dead letters", titles, rows, view.counts.dead_letters)


def _list(title: str, titles: Sequence[str], rows: Sequence[Sequence[str | int]], count: int) -> str:
    if not count:
        return ""
    shown = f"{count}" if len(rows) == count else f"{len(rows)} of {count}"
    return f"<h3>{title}: {shown}</h3>{_table(titles, rows)}"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """Cells of text are HTML already."""
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "\n".join(
        "<tr>"
        + "".join(f'<td class="n">{cell}</td>' if isinstance(cell, int) else f"<td>{cell}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}\n</table>"


def _cell(text: str) -> str:
    return escape(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def _text(value: object) -> str:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return str(value)
