"""What a configuration file is made of once it is read: blocks, values, and complaints, each with its line. Reads nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from common.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Unset:
    """Stands where the value of an environment variable would, which is not set: an error for whoever needs it."""

    variable: str
    path: str
    line: int

    def complaint(self) -> str:
        return f"environment variable {self.variable} is not set"


class Unreadable:
    """Stands where a value would that was complained about already, so that the rest of the file is still checked."""


UNREADABLE = Unreadable()


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint about one line of a file; sorted by line."""

    line: int
    text: str


def complain(path: str, problems: list[Problem]) -> ConfigurationError:
    """All problems as one error, in the order of their lines, each once."""
    ordered = sorted(set(problems), key=lambda problem: (problem.line, problem.text))
    return ConfigurationError([f"{path}:{problem.line}: {problem.text}" for problem in ordered])


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: str, int, float, bool, None, Unset, Unreadable, or a list or map of further values."""

    line: int
    data: Any


@dataclass(frozen=True, slots=True)
class Block:
    """`name { ... }`: its settings and inner blocks in the order of the file."""

    name: str
    line: int
    entries: list[tuple[str, int, Value | Block]] = field(default_factory=list)
