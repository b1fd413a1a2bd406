"""The tables of settings and of metrics in the documentation, generated from the declarations. Tests compare the pages with them.

`python -m dstream.reference docs/configuration.md docs/run.md docs/outputs/*.md` replaces what is between the two marks of each page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from common.bus.settings import OutputSettings
from common.config.blocks import BlockKind, block_of, not_of_files
from common.config.durations import format_duration
from common.config.sizes import Size
from common.names import TableName
from common.observability.metrics import documented
from common.sqladdress import SqlAddress
from dstream.examples import EXAMPLES
from ingester.settings import IngesterSettings
from ingester.watch.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER
from router.outputs.registry import TYPES
from router.settings import RouterBlock

OUTPUT = "router.output"

SETTINGS, METRICS = "settings", "metrics"
"""What a page has a table of, as its marks name it."""

_TYPES: dict[Any, str] = {
    str: "text",
    int: "whole number",
    bool: "true or false",
    timedelta: "duration",
    Size: "size",
    SecretStr: "text, secret",
    SqlAddress: "text, secret",
    TableName: "table",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A block: its dotted path, its type where it has several, and the model of its settings."""

    path: str
    kind: str
    model: type[BaseModel]

    @property
    def heading(self) -> str:
        return f"`{self.path}`" + (f" of type `{self.kind}`" if self.kind else "")


def blocks() -> Iterator[Described]:
    """Every block that a file may have, outer ones first."""
    for path, model in (("ingester", IngesterSettings), ("router", RouterBlock)):
        yield from _with_inner(Described(path, "", model))


def settings() -> str:
    """Markdown: for each block a heading, an example, and a table; a table that was there before is referred to. Types of outputs have pages of
    their own, except for the default."""
    first = dict[type[BaseModel], Described]()
    shown = [block for block in blocks() if block.path != OUTPUT or not block.kind]
    return "\n".join(section(block, first.setdefault(block.model, block)) for block in shown)


def settings_of_output(kind: str) -> str:
    """Markdown: an example and the table of an output of this type."""
    block = next(each for each in blocks() if each.path == OUTPUT and each.model is TYPES[kind])
    _, _, text = section(block, block).partition("\n\n")
    return text


def metrics() -> str:
    """Markdown: one table for each stage."""
    return f"{documented(INGESTER)}\n{documented(ROUTER)}"


def settings_of(kind: str) -> str:
    """What the page of a type of output has a table of, as its marks name it."""
    return f"{SETTINGS} of {kind}"


def marks(of: str) -> tuple[str, str]:
    """The lines of a page between which the tables are."""
    return f"<!-- {of}: begin -->\n", f"<!-- {of}: end -->\n"


def updated(page: str) -> str:
    """`page` with the tables between its marks generated again."""
    of_outputs: list[tuple[str, Callable[[], str]]] = [
        (settings_of(kind), partial(settings_of_output, kind)) for kind in output_types()
    ]
    for of, generated in ((SETTINGS, settings), (METRICS, metrics), *of_outputs):
        begin, end = marks(of)
        if begin in page:
            before, _, rest = page.partition(begin)
            _, _, after = rest.partition(end)
            page = f"{before}{begin}\n{generated()}\n{end}{after}"
    return page


def output_types() -> list[str]:
    """The types of outputs, each by its first name."""
    return list({model: kind for kind, model in reversed(TYPES.items())}.values())[::-1]


def _with_inner(block: Described) -> Iterator[Described]:
    yield block
    for name in block.model.model_fields:
        if (inner := block_of(block.model, name)) is not None:
            for kind, model in _models(inner):
                yield from _with_inner(Described(f"{block.path}.{name}", kind, model))


def section(block: Described, first: Described) -> str:
    """`first`: the first block with the same settings."""
    example = EXAMPLES.get((block.path, block.kind))
    parts = [f"### {block.heading}\n", "" if example is None else f"```hcl\n{example}```\n"]
    if first is block:
        rows = [
            _row(block.model, name, declared)
            for name, declared in block.model.model_fields.items()
            if not not_of_files(block.model, name)
        ]
        parts.append(f"| setting | type | default | meaning |\n|---|---|---|---|\n{''.join(rows)}")
    else:
        parts.append(f"The settings of [{first.heading}](#{_anchor(first.heading)}).\n")
    return "\n".join(filter(None, parts))


def _anchor(heading: str) -> str:
    """By which GitHub links to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _row(model: type[BaseModel], name: str, declared: FieldInfo) -> str:
    about = (declared.description or "").replace("|", "\\|")
    return f"| `{name}` | {_type(block_of(model, name), declared)} | {_default(declared)} | {about} |\n"


def _models(block: BlockKind) -> list[tuple[str, type[BaseModel]]]:
    """The models of a block, each with the first of its types' names; without a name where there is one model only."""
    if block.by_type is None:
        return [("", block.model)]
    first = {model: kind for kind, model in reversed(list(block.by_type.models.items()))}
    usual = block.by_type.default if block.model is OutputSettings else None
    return [("" if len(first) == 1 or kind == usual else kind, model) for model, kind in reversed(first.items())]


def _type(block: BlockKind | None, declared: FieldInfo) -> str:
    if block is not None:
        return "blocks" if block.repeats else "block"
    return _named(declared.annotation)


def _named(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _named(arguments[0])
    if origin is Literal:
        return " / ".join(f"`{choice}`" for choice in arguments)
    if origin in (UnionType, Union):
        return next(_named(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return f"list of {_named(arguments[0])}"
    return _TYPES.get(annotation, "map of text")


def _default(declared: FieldInfo) -> str:
    if declared.is_required():
        return "required"
    value = declared.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return "`[" + ", ".join(f'"{item}"' for item in value) + "]`"
    assert value is not PydanticUndefined
    return f"`{value if value != {} else '{}'}`"


def main() -> None:
    """Update the pages named on the command line."""
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
