"""Long lists as pages: chosen, ordered and cut, from what was seen. For HTTP and gRPC alike; asks nobody."""

from __future__ import annotations

import base64
import binascii
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal, get_args

from common.errors import ConfigurationError
from desk.documents.overview import Entity, Topic
from desk.documents.shape import Page
from desk.documents.tables import Table, TableState

Sort = Literal["configured", "name", "state", "lag", "changes", "headroom", "rate"]

_WORST_FIRST: Final = ("gap", "stopped", "absent", "nobody", "behind", "paused", "unknown", "flowing", "idle")
_LAST: Final = float("inf")

Value = float | str


def _key(sort: Sort, places: Mapping[str, int]) -> Callable[[Table], Value]:
    """The worst come first, and what is unknown last."""
    keys: dict[Sort, Callable[[Table], Value]] = {
        "configured": lambda table: places[table.table],
        "name": lambda table: table.table.casefold(),
        "state": lambda table: _WORST_FIRST.index(table.state),
        "lag": lambda table: _LAST if table.lag is None else -table.lag.seconds,
        "changes": lambda table: _LAST if table.lag is None else -table.lag.changes,
        "headroom": lambda table: _LAST if table.headroom_seconds is None else table.headroom_seconds,
        "rate": lambda table: _LAST if table.changes_per_second is None else -table.changes_per_second,
    }
    return keys[sort]


def page_of_tables(
    tables: Sequence[Table],
    *,
    states: Collection[TableState] = (),
    search: str | None = None,
    sort: Sort = "configured",
    after: str | None = None,
    most: int = 100,
) -> Page[Table]:
    """`after` names the last table of the page before with its value, so that a table that moves meanwhile disturbs no other."""
    word = (search or "").casefold().strip()
    chosen = [
        table
        for table in tables
        if (not states or table.state in states) and (not word or word in table.table.casefold())
    ]
    key = _key(sort, {table.table: number for number, table in enumerate(tables)})
    ordered = sorted(((key(table), table.table, table) for table in chosen), key=lambda each: each[:2])
    if after is not None:
        begin = _cursor(after, sort)
        ordered = [each for each in ordered if each[:2] > begin]
    cut = ordered[:most]
    more = len(ordered) > most
    return Page[Table](
        items=[table for *_, table in cut],
        next=_written(sort, *cut[-1][:2]) if cut and more else None,
        total=len(chosen),
    )


def _written(sort: Sort, value: Value, name: str) -> str:
    said = json.dumps([sort, None if value == _LAST else value, name]).encode()
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def _cursor(after: str, sort: Sort) -> tuple[Value, str]:
    try:
        found = json.loads(base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True))
        of, value, name = found
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _no_cursor() from None
    if value is None:
        value = _LAST
    wanted = str if sort == "name" else (int, float)
    if of != sort or isinstance(value, bool) or not isinstance(value, wanted) or not isinstance(name, str):
        raise _no_cursor()
    return value, name


def _no_cursor() -> ConfigurationError:
    return ConfigurationError(
        ["after: it is not from a page with this order"], hint="give `next` of the page before, with the same `sort`"
    )


def topics_of(tables: Sequence[Table], entities: Sequence[Entity]) -> list[Topic]:
    """In the order of the tables; then those to which no table goes."""
    at, lying = defaultdict[str, list[str]](list), defaultdict[str, list[Entity]](list)
    for table in tables:
        if table.topic is not None:
            at[table.topic].append(table.table)
    for entity in entities:
        if entity.kind != "queue":
            lying[entity.name].append(entity)
    names = {name.casefold(): name for name in (*lying, *at)}
    order = dict.fromkeys(name.casefold() for name in (*at, *lying))
    there = {name.casefold(): found for name, found in lying.items()}
    return [Topic(topic=names[each], tables=at.get(names[each], []), entities=there.get(each, [])) for each in order]


def checked_sort(sort: str) -> Sort:
    """For ways that have no types of their own. Raises ConfigurationError."""
    for each in get_args(Sort):
        if each == sort:
            return each  # type: ignore[no-any-return]
    raise ConfigurationError([f"sort: {sort[:40]!r} is none of {', '.join(get_args(Sort))}"])
