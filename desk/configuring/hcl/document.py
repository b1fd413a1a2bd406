"""A configuration as data: what DStream's own parser reads, without places. Two texts that mean the same are equal. Pure.

A variable stands for itself, whatever this process has it set to. Refuses a text that the parser does not read as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from common.config.hcl import parse
from common.config.template import render
from common.config.values import Block as ParsedBlock
from common.config.values import Unreadable, Unset, Value, complain
from desk.configuring.hcl.literals import PLACEHOLDER, Env


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: Any
    line: int = 0

    @property
    def label(self) -> None:
        return None

    def same(self, other: Setting | Inner) -> bool:
        return isinstance(other, Setting) and self.name == other.name and _typed(self.value) == _typed(other.value)


@dataclass(frozen=True, slots=True)
class Inner:
    """A block."""

    name: str
    label: str | None
    entries: tuple[Setting | Inner, ...]
    line: int = 0

    def same(self, other: Setting | Inner) -> bool:
        return (
            isinstance(other, Inner)
            and (self.name, self.label, len(self.entries)) == (other.name, other.label, len(other.entries))
            and all(one.same(another) for one, another in zip(self.entries, other.entries, strict=True))
        )

    def value_of(self, name: str) -> Any:
        """Of the setting with this name; None if there is none."""
        return next((each.value for each in self.entries if isinstance(each, Setting) and each.name == name), None)


@lru_cache(maxsize=8)
def document(text: str, path: str) -> Inner:
    """Raises ConfigurationError with every problem that reading it has; what its settings mean is not looked at."""
    root, problems = parse(render(text, path=path, environ=_Names()), path=path)
    if problems:
        raise complain(path, problems)
    return Inner("", None, tuple(_entries(root)))


def plain_of(value: Any) -> Any:
    """A value that was asked for, as `document` would read it."""
    if isinstance(value, Env):
        return f"{PLACEHOLDER}{value.variable}{PLACEHOLDER}"
    if isinstance(value, Mapping):
        return {key: plain_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain_of(each) for each in value]
    return value


def variables_named(value: Any) -> Any:
    """The same with an `Env` for each text that is nothing but a variable."""
    if (
        isinstance(value, str)
        and len(value) > 2
        and value.count(PLACEHOLDER) == 2
        and value[0] == value[-1] == PLACEHOLDER
    ):
        return Env(value[1:-1])
    if isinstance(value, Mapping):
        return {key: variables_named(each) for key, each in value.items()}
    if isinstance(value, list):
        return [variables_named(each) for each in value]
    return value


def shown(value: Any) -> Any:
    """For a person: `{"env": NAME}` for what is nothing but a variable, and the expression where one stands in a text."""
    if isinstance(value, str) and PLACEHOLDER in value:
        alone = variables_named(value)
        if isinstance(alone, Env):
            return {"env": alone.variable}
        return re.sub(f"{PLACEHOLDER}(.*?){PLACEHOLDER}", r'{{ env("\1") }}', value)
    if isinstance(value, Mapping):
        return {key: shown(each) for key, each in value.items()}
    return [shown(each) for each in value] if isinstance(value, list) else value


def _entries(block: ParsedBlock) -> Iterator[Setting | Inner]:
    for name, line, entry in block.entries:
        if isinstance(entry, ParsedBlock):
            yield Inner(name, entry.label, tuple(_entries(entry)), line)
        else:
            yield Setting(name, _data(entry), line)


def _data(value: Value) -> Any:
    data = value.data
    if isinstance(data, Unset | Unreadable):
        return type(data).__name__
    if isinstance(data, list):
        return [_data(each) for each in data]
    if isinstance(data, dict):
        return {key: _data(each) for key, each in data.items()}
    return data


def _typed(value: Any) -> Any:
    """1, 1.0 and true are different values of a file."""
    if isinstance(value, list):
        return "list", [_typed(each) for each in value]
    if isinstance(value, dict):
        return "map", [(key, _typed(each)) for key, each in value.items()]
    return type(value).__name__, value


class _Names(Mapping[str, str]):
    """An environment in which every variable has its own name as its value."""

    def __getitem__(self, variable: str) -> str:
        return f"{PLACEHOLDER}{variable}{PLACEHOLDER}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0
