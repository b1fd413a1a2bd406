"""The tables of settings and of metrics in the documentation, generated from the declarations. Tests compare the pages with them.

`python -m dstream.reference docs/configuration.md docs/run.md` replaces what is between the two marks of each page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from common.config.bind import BlockKind, block_of
from common.config.durations import format_duration
from common.config.sizes import Size
from common.names import TableName
from common.observability.metrics import documented
from common.sqladdress import SqlAddress
from dstream.examples import EXAMPLES
from ingester.settings import IngesterSettings
from ingester.watch.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER
from router.settings import RouterBlock

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


def settings() -> str:
    """Markdown: for each block a heading, an example and a table."""
    blocks: list[tuple[str, type[BaseModel]]] = [("ingester", IngesterSettings), ("router", RouterBlock)]
    return "\n".join(text for name, model in blocks for text in _sections(name, model))


def metrics() -> str:
    """Markdown: one table for each stage."""
    return f"{documented(INGESTER)}\n{documented(ROUTER)}"


def marks(of: str) -> tuple[str, str]:
    """The lines of a page between which the tables are."""
    return f"<!-- {of}: begin -->\n", f"<!-- {of}: end -->\n"


def updated(page: str) -> str:
    """`page` with the tables between its marks generated again."""
    for of, generated in ((SETTINGS, settings), (METRICS, metrics)):
        begin, end = marks(of)
        if begin in page:
            before, _, rest = page.partition(begin)
            _, _, after = rest.partition(end)
            page = f"{before}{begin}\n{generated()}\n{end}{after}"
    return page


def _sections(path: str, model: type[BaseModel], kind: str = "") -> Iterator[str]:
    rows, inner = [], []
    for name, declared in model.model_fields.items():
        if (block := block_of(model, name)) is not None:
            inner.append((f"{path}.{name}", block))
        about = (declared.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {_type(block, declared)} | {_default(declared)} | {about} |\n")
    example = f"```hcl\n{EXAMPLES[path, kind]}```\n\n" if (path, kind) in EXAMPLES else ""
    heading = f"### `{path}`" + (f" of type `{kind}`" if kind else "")
    yield f"{heading}\n\n{example}| setting | type | default | meaning |\n|---|---|---|---|\n{''.join(rows)}"
    for inner_path, block in inner:
        for kind, each in _models(block):
            yield from _sections(inner_path, each, kind)


def _models(block: BlockKind) -> list[tuple[str, type[BaseModel]]]:
    """The models of a block, each with the first of its types' names; without a name where there is one model only."""
    if block.by_type is None:
        return [("", block.model)]
    first = {model: kind for kind, model in reversed(list(block.by_type.models.items()))}
    return [("" if len(first) == 1 else kind, model) for model, kind in reversed(first.items())]


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
