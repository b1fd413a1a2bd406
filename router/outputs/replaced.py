"""The places that routes give in place of those of the outputs: judged as the outputs' own settings are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_origin
from urllib.parse import urljoin, urlsplit

from pydantic import TypeAdapter, ValidationError

from common.bus.settings import OutputSettings
from common.config.bind import Document
from common.config.settings import Remark
from common.config.values import Block, Problem, WrongText
from common.names import TableName
from common.table_selection import TableSelection, is_pattern
from router.routing.settings import RouteBlock
from router.routing.streams import StreamPattern

_NO_EFFECT = "setting has no effect"


def problems(
    document: Document, block: Block, outputs: Sequence[OutputSettings], routes: Sequence[RouteBlock]
) -> list[Problem]:
    """What is wrong with `topic` of the routes, each with its line. `block`: the router's, with the blocks of `routes`."""
    by_name = {output.name: output for output in outputs}
    return [
        Problem(document.line(inner, "topic"), f"{block.name}.route.topic, for the output {name}: {why}")
        for inner, route in zip(blocks_of_routes(block), routes, strict=True)
        for name in route.to
        if route.topic is not None and (why := refused(by_name[name], route.topic)) is not None
    ]


def remarks(
    document: Document,
    block: Block,
    outputs: Sequence[OutputSettings],
    routes: Sequence[RouteBlock],
    topics: Mapping[str, TableName],
    selection: TableSelection,
) -> Iterator[Remark]:
    """What routes say without effect: a place where an output has but one, and tables that there are not. `topics`: with their tables."""
    fixed = {output.name: output for output in outputs if not places_by_template(output)}
    for number, (inner, route) in enumerate(zip(blocks_of_routes(block), routes, strict=True), 1):
        for name in route.to if route.topic is not None else ():
            if (output := fixed.get(name)) is not None:
                hint = f"route {number} gives another place to {name}, an output of type {output.type}, which has one; remove it"
                yield Remark(document.line(inner, "topic"), _NO_EFFECT, f"{block.name}.route.topic", hint)
        for text in route.tables:
            if not _names_some(StreamPattern.parse(text), topics, selection):
                hint = f'route {number}: from names "{text}", which is none of the tables; correct it, unless it is a topic beside theirs'
                yield Remark(document.line(inner, "from"), _NO_EFFECT, f"{block.name}.route.from", hint)


def _names_some(entry: StreamPattern, topics: Mapping[str, TableName], selection: TableSelection) -> bool:
    """Whether a table is known that the entry matches, or patterns of `tables` may find one."""
    if any(entry.matches(topic, table) for topic, table in topics.items()):
        return True
    name = entry.text.removeprefix("!").strip()
    if not selection.patterns or entry.table is None:
        return False
    return is_pattern(name) or selection.finding(TableName.parse(name)) is not None


def refused(output: OutputSettings, place: str) -> str | None:
    """Why `place` cannot replace the place of `output`, without anything that the output keeps secret; None if it can."""
    if not places_by_template(output):
        return None
    return _refused_address(output, place) if "://" in output.destination_template else _wrong(output, place)


def places_by_template(output: OutputSettings) -> bool:
    """Whether a route can give another place: not where there are a few fixed ones, as of the console."""
    return get_origin(type(output).model_fields[output.place_setting].annotation) is not Literal


def blocks_of_routes(block: Block) -> Iterator[Block]:
    """Those inside the router's block, in their order."""
    return (entry for key, _, entry in block.entries if key == "route" and isinstance(entry, Block))


def _refused_address(output: OutputSettings, place: str) -> str | None:
    """It may be relative. The output's token and headers go to no other server than its own."""
    try:
        joined = urljoin(output.destination_template, place)
        if (why := _wrong(output, joined)) is not None:
            return why
        if _server(joined) != _server(output.destination_template):
            return f"must name the server of the output's {output.place_setting}, with its scheme and port, because its credentials go there"
    except ValueError:
        return "is not an address"
    return None


def _server(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _wrong(output: OutputSettings, place: str) -> str | None:
    field = type(output).model_fields[output.place_setting]
    try:
        TypeAdapter(field.rebuild_annotation()).validate_python(place)
    except ValidationError as error:
        cause = error.errors()[0].get("ctx", {}).get("error")
        return (cause.unquoted or str(cause)) if isinstance(cause, WrongText) else str(cause or "cannot be used")
    return None
