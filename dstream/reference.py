"""The tables of settings in docs/configuration.md, written from the declarations themselves.

`python -m dstream.reference docs/configuration.md` writes them anew between the page's two marks; a test compares.
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
from common.sizes import Size
from common.sqladdress import SqlAddress
from ingester.settings import IngesterSettings
from router.settings import RouterBlock

BEGIN, END = "<!-- settings: begin -->\n", "<!-- settings: end -->\n"
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


def tables() -> str:
    """Markdown: one heading and one table for each block."""
    blocks: list[tuple[str, type[BaseModel]]] = [("ingester", IngesterSettings), ("router", RouterBlock)]
    return "\n".join(text for name, model in blocks for text in _sections(name, model))


def with_tables(page: str) -> str:
    """`page` with the part between the two marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


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
    """Rewrite the page named on the command line."""
    page = Path(sys.argv[1])
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
