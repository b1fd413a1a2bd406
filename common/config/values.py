"""The parts of a configuration file that was read: blocks, values and problems, each with its line. Reads nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from common.config.written import Written
from common.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Unset:
    """Stands for the value of an environment variable that is not set: an error for each setting that needs it."""

    variable: str
    path: str
    line: int

    def complaint(self) -> str:
        return f"environment variable {self.variable} is not set"


class Unreadable:
    """Stands for a value whose problem was already reported, so that the rest of the file is still checked."""


UNREADABLE = Unreadable()


def is_text(value: str) -> bool:
    """False where half of a surrogate pair stands in it: no server takes it, and Python keeps bytes of a variable that are not UTF-8 so."""
    return not any("\ud800" <= each <= "\udfff" for each in value)


class WrongText(ValueError):
    """What a validator complains about in a text. `offset`: the character of the text where that is; None if it is about the whole.

    `unquoted`: the complaint without anything of the text, which may hold a secret; None where it shows nothing of it.
    """

    def __init__(self, complaint: str, offset: int | None = None, *, unquoted: str | None = None) -> None:
        super().__init__(complaint)
        self.offset = offset
        self.unquoted = unquoted


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint about one line of a file; sorted by line. `missing`: (variable, setting) where an unset variable is the cause.

    `column`: where on the line, counted from 1 in characters; None where that is not known, or the complaint is about the whole setting.
    """

    line: int
    text: str
    missing: tuple[str, str] | None = None
    column: int | None = None

    @property
    def place(self) -> str:
        return str(self.line) if self.column is None else f"{self.line}:{self.column}"

    def placed(self, value: Value | None, error: object) -> Problem:
        """The same at the character that `error` is about, as far as that is known. `value`: of the setting."""
        if value is None or value.written is None or not isinstance(error, WrongText):
            return self
        line, column = value.written.place(error.offset or 0)
        return replace(self, line=line, column=column)

    @classmethod
    def unset(cls, line: int, setting: str, unset: Unset) -> Problem:
        """A setting that needs an environment variable which is not set."""
        return cls(line, f"{setting}: {unset.complaint()}", (unset.variable, setting))


def complain(path: str, problems: list[Problem]) -> ConfigurationError:
    """All problems as one error, in the order of their lines, each once; an unset variable once for all settings that need it."""
    ordered = sorted(set(problems), key=lambda problem: (problem.line, problem.column or 0, problem.text))
    told: dict[object, list[Problem]] = {}
    for problem in ordered:
        told.setdefault(problem.missing[0] if problem.missing else problem, []).append(problem)
    return ConfigurationError([f"{path}:{same[0].place}: {same[0].text}{_also(same[1:])}" for same in told.values()])


def _also(others: list[Problem]) -> str:
    places = [f"{problem.missing[1]} on line {problem.line}" for problem in others if problem.missing]
    return f" (needed by {', '.join(places)} too)" if places else ""


@dataclass(frozen=True, slots=True)
class Value:
    """A literal: str, int, float, bool, None, Unset, Unreadable, or a list or map of further values."""

    line: int
    data: Any
    written: Written | None = None
    """Of a text: how it stands in the file, if no value from the environment is near."""
    of_environment: bool = False
    """Whether it holds a value from the environment, so that no complaint may quote it."""


@dataclass(frozen=True, slots=True)
class Block:
    """`name { ... }` or `name "label" { ... }`: its settings and inner blocks in the order of the file."""

    name: str
    line: int
    entries: list[tuple[str, int, Value | Block]] = field(default_factory=list)
    label: str | None = None
