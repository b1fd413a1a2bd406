"""What an edit sends to an output that did not get it: routes and places of two texts are compared. Pure.

Looks at the texts and not at the order, because an undo has none. Where it is not certain that a route of the old text took the same, says so of
one too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from common.config.blocks import UNLABELLED
from common.names import TableName
from common.table_selection import TablePattern, entry
from desk.configuring.addresses import ENDS
from desk.configuring.hcl.document import Inner, Setting

_EVERY = "*.*"
_PLACES = (*ENDS, "topic", "index", "subject", "stream", "table")
"""Settings of outputs that say where a change goes."""


@dataclass(frozen=True, slots=True)
class Way:
    """One entry of `from` to one output. `without`: what the route takes away, in lower case."""

    output: str
    of: str
    without: frozenset[str]
    when: str | None
    topic: str | None

    def within(self, other: Way) -> bool:
        """Whether whatever goes this way went the other one."""
        return (
            (self.output, self.topic) == (other.output, other.topic)
            and other.when in (None, self.when)
            and other.without <= self.without
            and _wider(other.of, self.of)
        )

    def __str__(self) -> str:
        filtered = "" if self.when is None else ", those that the filter of their route lets pass"
        return f"changes of {self.of} go to the output {self.output} from now on{filtered}"


def rerouted(old: Inner | None, new: Inner | None) -> Iterator[str]:
    """For a person. `old`, `new`: the block `router` of both texts."""
    if old is None or new is None:
        return
    before, after = list(_ways(old)), list(_ways(new))
    for way in dict.fromkeys(after):
        if not any(way.within(each) for each in before) and not _unrouted(way, before):
            yield str(way)
    named = {each.of.lower() for each in after}
    if _EVERY not in named:
        for each in dict.fromkeys(each.of for each in before):
            if each.lower() not in named and not _to_default(each, before):
                yield f"changes of {each} go to the default output from now on, unless another route names them"
    places = {each.label: each for each in old.entries if isinstance(each, Inner) and each.name == "output"}
    for block in new.entries:
        if isinstance(block, Inner) and block.name == "output" and block.label in places:
            yield from _moved(places[block.label], block)


def _ways(router: Inner) -> Iterator[Way]:
    for block in router.entries:
        if isinstance(block, Inner) and block.name == "route":
            listed = block.value_of("from")
            texts = _texts(listed) if listed is not None else [_EVERY]
            without = frozenset(each.lower() for each in texts if each.lstrip().startswith("!"))
            when, place = block.value_of("when"), block.value_of("topic")
            topic = None if place is None else str(place)
            for output in _texts(block.value_of("to")):
                for each in [text for text in texts if text.lower() not in without] or [_EVERY]:
                    yield Way(output, each, without, when if isinstance(when, str) else None, topic)


def _unrouted(way: Way, before: Sequence[Way]) -> bool:
    """Whether it goes where it went when no route named it."""
    if way.output != UNLABELLED or way.topic is not None:
        return False
    return not any(_wider(way.of, each.of) or _wider(each.of, way.of) for each in before)


def _to_default(text: str, ways: Sequence[Way]) -> bool:
    return any(each.output == UNLABELLED and each.when is None and _wider(each.of, text) for each in ways)


def _moved(old: Inner, new: Inner) -> Iterator[str]:
    before, after = ({each.name: each.value for each in of.entries if isinstance(each, Setting)} for of in (old, new))
    moved = [name for name in _PLACES if before.get(name) != after.get(name)]
    if moved:
        name = new.label or UNLABELLED
        yield f"changes for the output {name} go to another place from now on: its {' and '.join(moved)} changed"


def _wider(one: str, other: str) -> bool:
    """Whether `one` finds whatever `other` does."""
    if one.lower() == other.lower() or one == _EVERY:
        return True
    try:
        pattern, table = entry(one), entry(other)
    except ValueError:
        return False
    return isinstance(pattern, TablePattern) and isinstance(table, TableName) and pattern.matches(table)


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
