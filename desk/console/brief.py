"""The details of a change, as short as an audit log can keep them: a refused order may be as large as a request. Secrets are masked."""

from __future__ import annotations

import json
from typing import Any, Final

from common.observability.logs import masked

MOST_BYTES: Final = 4096
_NAME: Final = 100
_TEXT: Final = 2000
_NAMES: Final = 20
_NUMBERS: Final = 100


def brief(details: dict[str, Any]) -> dict[str, Any]:
    """At most MOST_BYTES of JSON: names of 100 characters, 20 of them, 100 numbers. Says what it has left out."""
    found: dict[str, Any] = {key: _brief(each, _TEXT) for key, each in details.items()}
    size = _size(found)
    if size <= MOST_BYTES:
        return found
    kept = {key: each for key, each in found.items() if _size(each) <= MOST_BYTES // 8}
    return {**dict(list(kept.items())[: _NAMES // 4]), "left_out": f"{size} bytes of details"}


def _brief(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return text(value, most)
    if isinstance(value, dict):
        first = list(value.items())[:_NAMES]
        found = {text(str(key), _NAME): _brief(each, most) for key, each in first}
        return found if len(value) <= _NAMES else {**found, "left_out": len(value) - _NAMES}
    if isinstance(value, list | tuple):
        cut = _NUMBERS + 1 if all(isinstance(each, int) for each in value[:_NUMBERS]) else _NAMES
        items = [_brief(each, _NAME) for each in value[:cut]]
        return items if len(value) <= cut else [*items, f"and {len(value) - cut} more"]
    return value


def text(value: str, most: int) -> str:
    found = masked(value)
    return found if len(found) <= most else f"{found[: most - 4]} ..."


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))
