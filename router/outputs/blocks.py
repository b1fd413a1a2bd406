"""The blocks of outputs in the file: where they stand, and what is worth a line about them. Decides nothing about messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from common.bus.settings import OutputSettings
from common.config.bind import Document
from common.config.settings import Remark
from common.config.values import Block


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


def workers_unused(line: int, output: OutputSettings) -> Remark:
    """`output`: one that only one process can write to. `line`: of the setting `workers`."""
    hint = f"one process routes, because of {named(output)} of type {output.type}; remove it"
    return Remark(line, "setting has no effect", "router.workers", hint)
