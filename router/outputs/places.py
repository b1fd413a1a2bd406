"""The places of streams at an output, and what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from common.bus.place import colliding, names_table
from common.bus.settings import OutputSettings
from common.names import Origin, TableName
from router.outputs.port import Stream
from router.routing.settings import RouteBlock
from router.routing.table import RouteTable, parts_of_key

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
    """One for each of `topics`, whatever the routes."""
    return [stream_of(output, origin, topic, table) for topic, table in topics.items()]


def streams_by_output(
    outputs: Iterable[OutputSettings],
    routes: Sequence[RouteBlock],
    origin: Origin | None,
    topics: Mapping[str, TableName],
) -> Mapping[str, Mapping[str, Stream]]:
    """By output, the default first: the streams that the routes give it, by their keys. An output that gets nothing is left out."""
    unfiltered = [
        route.model_copy(update={"when": None}) for route in routes
    ]  # where changes may go, whatever filters say
    table_of = (lambda topic: None) if origin is None else origin.table_of
    table = RouteTable(unfiltered, table_of, origin)
    by_name = {output.name: output for output in outputs if output.name in table.outputs}
    found: dict[str, dict[str, Stream]] = {name: {} for name in by_name}
    for topic, name in topics.items():
        for target in table.streams(topic, name):
            _, place = parts_of_key(target.key)
            stream = stream_of(by_name[target.output], origin, topic, name, instead=place)
            found[target.output][target.key] = stream
    return found


def shared_places(output: OutputSettings, streams: Mapping[str, Stream]) -> list[str]:
    """What is wrong with the places of an output: a text for each that two tables would share although its template names tables.

    `streams`: by their keys. The output's own template, or that of a route; where one names no table, its type allows a shared place.
    """
    told = [
        (str(stream.table), stream.destination)
        for key, stream in streams.items()
        if names_table(parts_of_key(key)[1] or output.destination_template)
    ]
    of_routes = any(parts_of_key(key)[1] is not None for key in streams)
    where = "it, or to topic of their route" if of_routes else "it"
    return [
        f"gives {one} and {other} the same place, {place}: add {{schema}} or {{topic}} to {where}"
        for one, other, place in colliding(told)
    ]
