"""Templates of the places that an output writes to, such as `{database}.{schema}.{table}`, and what they become for a table. Pure.

An output passes its own rule for characters that its server refuses. Two tables never share a place, except where a template says so by naming
no table at all: `colliding` finds those that would.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Final

from pydantic import AfterValidator

from common.config.values import WrongText
from common.names import Origin, TableName

PLACEHOLDERS: Final = ("server", "database", "schema", "table", "topic")
"""`topic`: the name of the stream, which messages have as the property `destination` (topics on Service Bus have it by default)."""

_OF_A_TABLE = ("{table}", "{topic}")
_BRACED = re.compile(r"\{([^{}]*)\}")

Escape = Callable[[str], str]
"""Writes one name so that the server takes it. One to one: two names never become the same."""


def template(text: str) -> str:
    """`text`, a template of one place for all tables or of a place for each. Raises WrongText."""
    if not text.strip():
        raise WrongText("is empty")
    for found in _BRACED.finditer(text):
        if found[1] not in PLACEHOLDERS:
            raise WrongText(
                f"has {found[0]}, which is not known here; a template may have {_listed()}",
                found.start(),
                unquoted=f"has a name in braces that is not known here; a template may have {_listed()}",
            )
    if (stray := re.search(r"[{}]", _BRACED.sub(lambda found: " " * len(found[0]), text))) is not None:
        raise WrongText("has a brace that belongs to no name", stray.start())
    return text


def template_of_tables(text: str) -> str:
    """`text`, a template of a place for each table. Raises WrongText."""
    if not names_table(template(text)):
        raise WrongText("must have {table} or {topic}, because each table needs a place of its own")
    return text


PlaceTemplate = Annotated[str, AfterValidator(template_of_tables)]
"""A setting: a template of a place for each table."""

SharedPlaceTemplate = Annotated[str, AfterValidator(template)]
"""A setting: the same, or one place for all tables."""


def names_table(text: str) -> bool:
    """Whether a template gives each table a place of its own."""
    return any(each in text for each in _OF_A_TABLE)


def values_of(origin: Origin, topic: str, table: TableName) -> Mapping[str, str]:
    """What the placeholders stand for, as the configuration spells it."""
    return {
        "server": origin.server,
        "database": origin.database,
        "schema": table.schema,
        "table": table.table,
        "topic": topic,
    }


def rendered(text: str, values: Mapping[str, str]) -> str:
    """The place that a template names. `values` are escaped already."""
    return _BRACED.sub(lambda found: values[found[1]], text)


def colliding(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Of (stream, place) pairs: (earlier stream, later stream, place) for each place that two streams would share."""
    seen: dict[str, str] = {}
    for stream, place in places:
        first = seen.setdefault(place, stream)
        if first != stream:
            yield first, stream, place


def _listed() -> str:
    return ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
