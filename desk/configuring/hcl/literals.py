"""Values as HCL writes them. Pure. Refuses what the file could not hold: numbers without end, halves of characters, keys with quotes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.config.values import is_text
from common.errors import ConfigurationError

PLACEHOLDER = "\ue000"
"""Around the name of a variable, where a document is read without its value."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_KEY = re.compile(r'[^"\\\n\r${}%]+')
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# A brace that HCL or the template would take for the beginning of an expression.
_BRACE = re.compile(r"(?<=[$%{])\{|\{(?=[{%#])")
_RESERVED = frozenset({"true", "false", "null", "in", "for", "if", "for_each", "else", "endif", "endfor"})


@dataclass(frozen=True, slots=True)
class Env:
    """A value that stands in an environment variable."""

    variable: str


def written(value: Any) -> str:
    """On one line. Raises ConfigurationError for what cannot be written."""
    if isinstance(value, Env):
        return f'"{{{{ env("{value.variable}") }}}}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(written, value))}]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key_written(key)} = {written(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    raise ConfigurationError([f"a value of the type {type(value).__name__} cannot be written"])


def quoted(text: str) -> str:
    if PLACEHOLDER in text:
        raise ConfigurationError(["a text holds the private character U+E000: write it by hand"])
    if not is_text(text):
        raise ConfigurationError(["a text holds half of a character, which is not UTF-8"])
    found = "".join(_ESCAPES.get(each) or (each if each.isprintable() else _escaped(each)) for each in text)
    return f'"{_BRACE.sub(chr(92) + chr(92) + "u007b", found)}"'


def key_written(key: str) -> str:
    """A name of a map."""
    if NAME.fullmatch(key) and key not in _RESERVED:
        return key
    if not _KEY.fullmatch(key) or not is_text(key) or not key.isprintable():
        raise ConfigurationError(["a name in a map holds a character that HCL gives a meaning: write it by hand"])
    return f'"{key}"'


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
