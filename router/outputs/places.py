"""The places of streams at an output, and what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from common.bus.place import colliding, names_table
from common.bus.settings import OutputSettings
from common.names import Origin, TableName
from router.outputs.port import Stream

NOWHERE = Origin("", "")
"""Of settings without an origin, which name no place by it."""


def stream_of(
    output: OutputSettings,
    origin: Origin | None,
    topic: str,
    table: TableName | None,
    *,
    instead: str | None = None,
) -> Stream:
    """`instead`: a template of a route, which replaces the output's."""
    return Stream(topic, table, output.place(origin or NOWHERE, topic, table, instead=instead))


def streams_of(output: OutputSettings, origin: Origin | None, topics: Mapping[str, TableName]) -> Sequence[Stream]:
    """One for each of `topics`."""
    return [stream_of(output, origin, topic, table) for topic, table in topics.items()]


def shared_places(output: OutputSettings, streams: Iterable[Stream]) -> list[str]:
    """What is wrong with the template of an output: a text for each place that two tables would share although the template names tables."""
    if not names_table(output.destination_template):
        return []
    return [
        f"gives {one} and {other} the same place, {place}: add {{schema}} or {{topic}} to it"
        for one, other, place in colliding((str(stream.table), stream.destination) for stream in streams)
    ]
