"""JSON read with its paths: every mistake is told with where it is and how to mend it, all of them at once.

Refuses unknown keys, keys given twice, and values of another type than asked for (a string "true" is no boolean).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from emulators.servicebus.description import InvalidEntity
from emulators.servicebus.durations import read_duration

_T = TypeVar("_T")


class InvalidDocument(Exception):
    """A document that cannot be used: `problems` has a line for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class _Twice(Exception):
    """A key that one object has twice."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a document, and where. What is asked of a value of another type is reported, and answered with None."""

    value: Any
    path: str
    problems: list[str]

    def report(self, problem: str) -> None:
        """One more mistake, here."""
        self.problems.append(f"{self.path or 'the document'}: {problem}")

    def members(self, known: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """The members of an object that are among the known ones; the others are reported."""
        if not isinstance(self.value, dict):
            self._wrong("an object")
            return {}
        for key in self.value.keys() - known:
            close = [name for name in known if name.lower() == key.lower()] or difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
            self.report(f"the key {key!r} is not known; {hint}")
        for key in (name for name in required if name not in self.value):
            self.report(f"{key!r} is missing")
        return {key: self._member(key) for key in self.value if key in known}

    def values(self) -> dict[str, Node]:
        """The members of an object with keys of the user's own."""
        if not isinstance(self.value, dict):
            self._wrong("an object")
            return {}
        return {key: self._member(key) for key in self.value}

    def items(self) -> list[Node]:
        """The elements of an array."""
        if not isinstance(self.value, list):
            self._wrong("an array")
            return []
        return [Node(item, f"{self.path}[{at}]", self.problems) for at, item in enumerate(self.value)]

    def text(self) -> str | None:
        return self._typed(str, "a string")

    def filled(self) -> str | None:
        """A string that says something."""
        if self.value == "":
            self.report("is empty: say something, or leave it out")
            return None
        return self.text()

    def boolean(self) -> bool | None:
        return self._typed(bool, "true or false, without quotes")

    def whole(self) -> int | None:
        return self._typed(int, "a whole number, without quotes")

    def duration(self) -> timedelta | None:
        """An ISO 8601 duration in a string."""
        text = self.text()
        return None if text is None else self.checked(lambda: read_duration(text))

    def checked(self, read: Callable[[], _T]) -> _T | None:
        """What `read` makes of it; an InvalidEntity becomes a mistake here."""
        try:
            return read()
        except InvalidEntity as error:
            self.report(str(error))
            return None

    def _typed(self, kind: type[_T], expected: str) -> _T | None:
        if type(self.value) is kind:  # not isinstance: true is no whole number
            return self.value
        self._wrong(expected)
        return None

    def _wrong(self, expected: str) -> None:
        text = json.dumps(self.value)
        self.report(f"must be {expected}, not {text if len(text) <= 40 else text[:40] + '...'}")

    def _member(self, key: str) -> Node:
        return Node(self.value[key], f"{self.path}.{key}" if self.path else key, self.problems)


def parse(text: str) -> Node:
    """The root of a document. Raises InvalidDocument when it is no JSON."""
    try:
        return Node(json.loads(text, object_pairs_hook=_once), "", [])
    except json.JSONDecodeError as error:
        problem = f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}"
        raise InvalidDocument([problem]) from None
    except RecursionError:
        raise InvalidDocument(["this is nested too deeply to be read"]) from None
    except _Twice as error:
        raise InvalidDocument([f"the key {error} is given twice in one object"]) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(repr(key))
        found[key] = value
    return found
