"""Words of complaints about a configuration file. Pure; never repeats a value, which may be a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from common.config.values import Block, Value

_WORDS = {
    "string_type": "must be text in double quotes",
    "int_type": "must be a whole number, without quotes",
    "bool_type": "must be true or false, without quotes",
    "dict_type": "must be a map: { key = value }",
    "tuple_type": "must be a list: [ ... ]",
}


def quoted(names: Iterable[str]) -> str:
    """Names in quotes, as a list."""
    return ", ".join(f'"{name}"' for name in names)


def one_of(choices: Iterable[str]) -> str:
    """What a setting of a few choices must be."""
    listed = quoted(choices)
    return f"must be one of {listed}" if "," in listed else f"must be {listed}"


def reason(item: Mapping[str, Any]) -> str:
    """An error of pydantic's, in DStream's words."""
    kind, context = item["type"], item.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        expected: str = context["expected"]
        return one_of(choice.strip("'") for choice in expected.replace(" or ", ", ").split(", "))
    if kind == "greater_than_equal":
        return f"must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"must be at most {context['le']}"
    return _WORDS.get(kind, f"is not valid ({kind.replace('_', ' ')})")


def kind_of(entry: Value | Block) -> str:
    """What an entry of a file is."""
    return "block" if isinstance(entry, Block) else "key"


def did_you_mean(key: str, known: Sequence[str], older: Mapping[str, str] = MappingProxyType({})) -> str:
    """`older`: names among `known` that have a present one, which is then proposed."""
    meant = get_close_matches(key, known, n=1, cutoff=0.7)
    return f' (did you mean "{older.get(meant[0], meant[0])}"?)' if meant else ""
