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

from common.durations import format_duration
from common.names import TableName
from common.observability.metrics import documented
from common.sizes import Size
from common.sqladdress import SqlAddress
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
    """Markdown: one heading and one table for each block."""
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


def _sections(path: str, model: type[BaseModel]) -> Iterator[str]:
    rows, inner = [], []
    for name, declared in model.model_fields.items():
        if (block := _block(declared)) is not None:
            inner.append((f"{path}.{name}", block))
        about = (declared.description or "").replace("|", "\\|")
        rows.append(f"| `{name}` | {_type(declared)} | {_default(declared)} | {about} |\n")
    yield f"### `{path}`\n\n| setting | type | default | meaning |\n|---|---|---|---|\n{''.join(rows)}"
    for inner_path, block in inner:
        yield from _sections(inner_path, block)


def _block(declared: FieldInfo) -> type[BaseModel] | None:
    for candidate in (declared.annotation, *get_args(declared.annotation)):
        if isinstance(candidate, type) and get_origin(candidate) is None and issubclass(candidate, BaseModel):
            return candidate
    return None


def _type(declared: FieldInfo) -> str:
    if _block(declared) is not None:
        return "blocks" if get_origin(declared.annotation) is tuple else "block"
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
