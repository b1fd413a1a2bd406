"""The one JSON document that a host writes to standard input: read until it is complete, and turned into blocks as those of a file are.

A host may close standard input after it or keep it open, and may end the line or not. Nothing behind the document is waited for, and what comes
is ignored. What is wrong is said with its JSON path, and no value is ever repeated: it may be a secret.
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Never

from pydantic import BaseModel

from common.clock import SteadyClock, steady
from common.config.blocks import block_of
from common.config.values import Block, Value, is_text
from common.errors import ConfigurationError

MOST_BYTES = 1_048_576
"""Of a document: a thousand tables with settings of their own have a tenth of it."""
PATIENCE_SECONDS = 30.0
"""For a host that is still starting."""
_DEEPEST = 32
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_TOO_LONG = object()
"""In the place of a whole number with more digits than are read."""
_HALF = "holds half of a surrogate pair, which is not a character"
_HINT = "write one JSON object to standard input: docs/provider.md has an example"


def complaint(problems: Sequence[str], *, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError([f"standard input: {problem}" for problem in problems], hint=hint)


def read_document(descriptor: int, *, seconds: float = PATIENCE_SECONDS, clock: SteadyClock = steady) -> dict[str, Any]:
    """Raises ConfigurationError when no document has come in `seconds`, or it is not one JSON object."""
    return parsed(_received(descriptor, clock() + seconds, seconds, clock))


def _received(descriptor: int, until: float, seconds: float, clock: SteadyClock) -> bytes:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    received, end = bytearray(), Completeness()
    while True:
        if not poll.poll(max(0.0, until - clock()) * 1000):
            came = f"only {len(received)} bytes of a document" if received else "no document"
            raise complaint([f"{came} came within {seconds:.0f} s"], hint=_HINT)
        try:
            piece = os.read(descriptor, 65_536)
        except OSError as error:
            raise complaint([f"cannot be read: {error.strerror}"], hint=_HINT) from error
        if not piece:
            return bytes(received)
        found = end.found(piece)
        received += piece[:found]
        if len(received) > MOST_BYTES:
            raise complaint([f"the document has more than {MOST_BYTES} bytes"])
        if found is not None:
            return bytes(received)


@dataclass(slots=True)
class Completeness:
    """Where a JSON object or list that comes in pieces is closed. Anything else is left to the parser."""

    _depth: int = 0
    _text: bool = False
    _escaped: bool = False

    def found(self, piece: bytes) -> int | None:
        """Take in the next piece. Returns how many of its bytes there are up to the outermost brace or bracket that closes; None: there is none."""
        for at, byte in enumerate(piece, 1):
            if self._text:
                if self._escaped:
                    self._escaped = False
                elif byte == 0x5C:  # a backslash
                    self._escaped = True
                elif byte == 0x22:
                    self._text = False
            elif byte == 0x22:
                self._text = True
            elif byte in b"{[":
                self._depth += 1
            elif byte in b"}]":
                self._depth -= 1
                if self._depth <= 0:
                    return at
        return None


def parsed(received: bytes) -> dict[str, Any]:
    """The JSON object in what was received. Raises ConfigurationError."""
    text = received.removeprefix(_BOM).strip(_SPACE)
    if not text:
        raise complaint(["is empty"], hint=_HINT)
    depth = deepest = 0
    for byte in text:
        depth += (byte in b"{[") - (byte in b"}]")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST:
        raise complaint([f"the document is nested more than {_DEEPEST} levels deep"])
    try:
        found = json.loads(text.decode(), object_pairs_hook=_object, parse_constant=_no_number, parse_int=_whole)
    except UnicodeDecodeError:
        raise complaint(["is not UTF-8"]) from None
    except json.JSONDecodeError as error:
        raise complaint([f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"], hint=_HINT) from None
    if not isinstance(found, dict):
        raise complaint(["$: must be an object"], hint=_HINT)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise complaint([f'key "{twice}" is given twice in one object'])
    return found


def _whole(digits: str) -> object:
    try:
        return int(digits)
    except ValueError:  # Python reads no more than some thousand digits
        return _TOO_LONG


def unusable(value: object, path: str) -> Iterator[str]:
    """What JSON can say and nobody can use, wherever it stands below `path`."""
    if value is _TOO_LONG:
        yield f"{path}: has more digits than a number may have"
    elif isinstance(value, str):
        if not is_text(value):
            yield f"{path}: {_HALF}"
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from unusable(item, f"{path}[{at}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if is_text(key):
                yield from unusable(item, member(path, key))
            else:
                yield f"{path}: has a key that {_HALF}"


def _no_number(name: str) -> Never:
    raise complaint([f"is not JSON: {name} is not a JSON number"])


@dataclass(slots=True)
class Places:
    """Where each part of the document is: a block's or value's "line" is the number of its path."""

    paths: list[str] = field(default_factory=lambda: ["$"])

    def number(self, path: str) -> int:
        self.paths.append(path)
        return len(self.paths) - 1

    def block(self, name: str, content: Mapping[str, Any], model: type[BaseModel], path: str) -> Block:
        """An object as the block that `model` declares. A key whose value is null counts as missing."""
        made = Block(name, self.number(path))
        for key, value in content.items():
            if value is None:
                continue
            here, kind = member(path, key), block_of(model, key)
            if kind is not None and isinstance(value, dict):
                made.entries.append((key, self.number(here), self.block(key, value, kind.model, here)))
            elif (
                kind is not None
                and kind.repeats
                and isinstance(value, list)
                and all(isinstance(x, dict) for x in value)
            ):
                for at, item in enumerate(value):
                    place = f"{here}[{at}]"
                    made.entries.append((key, self.number(place), self.block(key, item, kind.model, place)))
            else:
                made.entries.append((key, self.number(here), self._value(value, here)))
        return made

    def _value(self, value: Any, path: str) -> Value:
        data = value
        if isinstance(value, list):
            data = [self._value(item, f"{path}[{at}]") for at, item in enumerate(value)]
        elif isinstance(value, dict):
            data = {key: self._value(item, member(path, key)) for key, item in value.items()}
        return Value(self.number(path), data)


def member(path: str, key: str) -> str:
    """The path of a member: `$.tables`, `$["a key"]`."""
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
