"""A configuration as its file has it, and the same text for a parser of HCL: with plain line ends and without template expressions.

A character of the one is a character of the other, so that what the parser finds can be cut out of the file. Refuses template statements, and
expressions that do not end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from common.errors import PermanentError

MARK = "\ufeff"
BY_HAND = "edit the file by hand"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Splice(NamedTuple):
    """`text` in the place of what is from `start` up to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Original:
    """`raw`: the file. `text`: the same with line ends of one character. `at`: where each character of `text`, and its end, is in `raw`."""

    raw: str
    text: str
    at: tuple[int, ...]
    ending: str

    @classmethod
    def of(cls, raw: str) -> Original:
        begin = 1 if raw.startswith(MARK) else 0
        at, out, last = list[int](), list[str](), begin
        for found in re.finditer(r"\r\n|\r", raw):
            at += range(last, found.start() + 1)
            out += [raw[last : found.start()], "\n"]
            last = found.end()
        at += range(last, len(raw) + 1)
        out.append(raw[last:])
        windows, plain = raw.count("\r\n"), len(re.findall(r"(?<!\r)\n", raw))
        return cls(raw, "".join(out), tuple(at), "\r\n" if windows > plain else "\n")

    def with_splices(self, splices: Iterable[Splice]) -> str:
        """The file with these changes of `text`, which must not overlap."""
        out, last = list[str](), 0
        for start, end, text in sorted(splices, key=lambda each: each[:2]):
            out += [self.raw[last : self.at[start]], text.replace("\n", self.ending)]
            last = self.at[end]
        return "".join([*out, self.raw[last:]])


def without_expressions(text: str, letter: str = "v") -> str:
    """`text` with letters in the place of each `{{ }}`, and blanks in the place of each `{# #}`; line ends stay, except those in `{{ }}`."""
    out, position = list[str](), 0
    while (found := re.compile(r"\{[{%#]").search(text, position)) is not None:
        out.append(text[position : found.start()])
        if found[0] == "{#":
            end = text.find("#}", found.end()) + 2
            if end == 1:
                raise _refused(text, found.start(), "a comment {# does not end")
            out.append(re.sub(r"[^\n]", " ", text[found.start() : end]))
        elif found[0] == "{%":
            raise _refused(text, found.start(), "a template statement stands here")
        else:
            end = expression_end(text, found.end())
            out.append(letter * (end - found.start()))
        position = end
    return "".join([*out, text[position:]])


def expression_end(text: str, position: int) -> int:
    """Behind the `}}` of the expression that `position` is in, right behind its `{{`."""
    begin, opened = position, list[str]()
    while position < len(text):
        if not opened and text.startswith("}}", position):
            return position + 2
        each = text[position]
        if text.startswith('\\"', position):
            position = _after(text, text.find('\\"', position + 2), begin) + 1
        elif each in "\"'":
            literal = re.compile(rf"{each}(?:[^\\{each}]|\\.)*{each}", re.DOTALL).match(text, position)
            position = _after(text, -1 if literal is None else literal.end() - 1, begin)
        elif each in _CLOSING:
            opened.append(_CLOSING[each])
            position += 1
        else:
            if opened and each == opened[-1]:
                opened.pop()
            position += 1
    raise _refused(text, begin, "a template expression {{ does not end")


def _after(text: str, found: int, begin: int) -> int:
    if found < 0:
        raise _refused(text, begin, "a text in a template expression does not end")
    return found + 1


def _refused(text: str, position: int, why: str) -> PermanentError:
    line = text.count("\n", 0, position) + 1
    return PermanentError(f"reading the configuration for an edit: line {line}: {why}", hint=BY_HAND)
