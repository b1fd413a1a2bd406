"""The `route` blocks of the router. What they decide is in table.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field, create_model

from common.cel.filters import DATA, FilterFailed, FilterText, compile_filter
from common.config.settings import Location, Settings
from common.errors import PermanentError
from common.message import Metadata
from router.routing.streams import StreamPattern

DEFAULT = "default"
"""The name of the output that has no label."""


_TEXTS = dict.fromkeys((*Metadata.__required_keys__, *Metadata.__optional_keys__), "")
_SAMPLE = {**_TEXTS, "CommandID": 1, "OperationID": 1}


def _answers(text: str) -> str:
    """Refuse a filter of metadata alone that gives something else than true or false: it would fail on every message."""
    try:
        when = compile_filter(text)
    except PermanentError:  # the library is not installed, which the start says
        return text
    if when.fields[DATA] == frozenset() and not when.uses_before:
        try:
            when({}, None, _SAMPLE)
        except FilterFailed as failed:
            if "not true or false" in str(failed):
                raise ValueError(str(failed).removeprefix("the filter ")) from None
    return text


def _pattern(text: str) -> str:
    StreamPattern.parse(text)
    return text


def _some(texts: tuple[str, ...]) -> tuple[str, ...]:
    if not texts:
        raise ValueError("names nothing")
    return texts


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("names an output twice")
    return _some(names)


_From = Annotated[tuple[Annotated[str, AfterValidator(_pattern)], ...], AfterValidator(_some)]


class _Route(Settings):
    when: Annotated[FilterText, AfterValidator(_answers)] | None = Field(
        default=None,
        description=(
            "A filter, a CEL expression over `metadata`, `data` and `before` as in shape.md: the route takes the changes for which it is true. "
            "Application properties have `OperationType`, `Schema`, `TableName`, `Database`, `LSN`, `Destination` and `SchemaVersion`, so that a "
            "filter of these alone is cheap; any other reads the message's body. It needs `pip install dstream-cdc[routes]`. None, the default: all."
        ),
    )
    to: Annotated[tuple[str, ...], AfterValidator(_each_once)] = Field(
        description="The outputs, by their labels; the one without a label is `default`."
    )
    topic: str | None = Field(
        default=None,
        description=(
            "The place in these outputs in place of the one that each output's own setting gives, with the same placeholders: a topic, subject, "
            "table, index or folder. None, the default: the output's own."
        ),
    )

    @property
    def tables(self) -> tuple[str, ...]:
        """The setting `from`, which is no name in Python."""
        found: tuple[str, ...] = getattr(self, "from")
        return found


if TYPE_CHECKING:
    RouteBlock = _Route
else:
    RouteBlock = create_model(
        "RouteBlock",
        __base__=_Route,
        __module__=__name__,
        **{
            "from": (
                _From,
                Field(
                    default=("*.*",),
                    description=(
                        "Tables and patterns of them as in `tables` (`Persons`, `sales.*`), or topics (`server.database.*.events`); `!` takes "
                        'away. `["*.*"]`, the default, is every table, so that a route without it is a filter or a copy of everything.'
                    ),
                ),
            )
        },
    )
    RouteBlock.__doc__ = (
        """One route: of the messages from these tables, those for which `when` is true go to these outputs."""
    )


def unknown_outputs(given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Complaints about outputs that a route names and no block has. `given`: the settings around the routes, parts of which may be wrong."""
    known = [DEFAULT, *filter(None, (_of(block, "name") for block in given.get("outputs", ())))]
    for number, route in enumerate(given.get("route", ())):
        named = _of(route, "to")
        for at, name in enumerate(named if isinstance(named, tuple) else ()):
            if isinstance(name, str) and name not in known:
                meant = get_close_matches(name, known, n=1, cutoff=0.6)
                near = f' (did you mean "{meant[0]}"?)' if meant else f"; there are {', '.join(known)}"
                yield ("route", number, "to", at), f'names the output "{name}", which no block has{near}'


def _of(block: Any, name: str) -> Any:
    return block.get(name) if isinstance(block, Mapping) else getattr(block, name, None)
