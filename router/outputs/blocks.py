"""The blocks of outputs in the file: where they stand, what is wrong with them, and what is worth a line. Decides nothing about messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.bus.settings import OutputSettings
from common.config.bind import Document
from common.config.settings import Remark
from common.config.values import Block, Problem
from common.names import Ordering
from router.outputs.places import shared_places
from router.outputs.port import Stream

_ROUND = "which is the ingest queue: changes would go round for ever"


def block_of(document: Document, block: Block, output: OutputSettings) -> Block:
    """The block of `output` inside the router's `block`, or that one."""
    return document.inner(block, "output", None if output.is_default else output.name) or block


def named(output: OutputSettings) -> str:
    """The block of `output`, as complaints name it."""
    return "output" if output.is_default else f"output.{output.name}"


def remarks(
    document: Document, block: Block | None, outputs: Sequence[OutputSettings], routed: Collection[str]
) -> Iterator[Remark]:
    """Settings without effect, and outputs that get nothing. `block`: the router's. `routed`: the outputs that routes name."""
    for output in outputs:
        inner = None if block is None else block_of(document, block, output)
        for name, hint in output.without_effect:
            line = 1 if inner is None else document.line(inner, name)
            yield Remark(line, "setting has no effect", f"router.{named(output)}.{name}", hint)
        if not output.is_default and output.name not in routed:
            hint = f'no route names it: write route {{ to = ["default", "{output.name}"] }}, or remove the block'
            yield Remark(1 if inner is None else inner.line, "output gets nothing", f"router.{named(output)}", hint)


def unordered(document: Document, outputs: Sequence[OutputSettings], ordering: Ordering) -> list[Problem]:
    """Settings that cannot be used where the changes of a table are in several sessions, or in none."""
    block, found = document.block("router", "publisher"), list[Problem]()
    for output in outputs if block is not None and ordering != "table" else ():
        if block is not None and (wrong := output.needs_order) is not None:
            line = document.line(block_of(document, block, output), wrong[0])
            found.append(Problem(line, f"{block.name}.{named(output)}.{wrong[0]} {wrong[1]}"))
    return found


def workers_unused(line: int, output: OutputSettings) -> Remark:
    """`output`: one that only one process can write to. `line`: of the setting `workers`."""
    hint = f"one process routes, because of {named(output)} of type {output.type}; remove it"
    return Remark(line, "setting has no effect", "router.workers", hint)


@dataclass(frozen=True, slots=True)
class Ingest:
    """The ingest queue: its host and name. `patterns`: of tables that are not known yet."""

    where: str
    queue: str
    patterns: Sequence[str]


def complaints(
    document: Document, block: Block, output: OutputSettings, streams: Mapping[str, Stream], ingest: Ingest
) -> list[Problem]:
    """Settings of one output that do not give access to what the router needs there, and places that cannot be used.

    `block`: the router's. `streams`: by their keys.
    """
    places = list(dict.fromkeys(stream.destination for stream in streams.values()))
    further = [f"the topics of {pattern}" for pattern in ingest.patterns]
    found = [output.out_of_reach([*places, *further], "the router sends to ")]
    found += [(output.place_setting, text) for text in shared_places(output, streams)]
    if output.where == ingest.where and ingest.queue.lower() in (place.lower() for place in places):
        found.append((output.place_setting, f"names {ingest.queue}, {_ROUND}"))
    inner = block_of(document, block, output)
    return [
        Problem(document.line(inner, setting), f"{block.name}.{named(output)}.{setting} {text}")
        for setting, text in filter(None, found)
    ]
