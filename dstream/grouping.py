"""The whole command line as a group: how `dstream --help` lists the commands, by what a person is about to do, each with its whole sentence,
and what a wrong value of an option is called. It knows no command but by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import typer
from typer.core import TyperGroup

GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "Run": ("ingester", "router", "server", "console", "provider"),
    "Look": ("status", "offsets", "dlq"),
    "Act": ("pause", "resume", "snapshot", "replay"),
    "Prepare": ("check", "doctor", "plan", "schema", "asyncapi", "completion"),
    "Try it": ("emulators", "demo"),
}
_LONGEST: Final = 200
"""Characters of a sentence: longer than any, so that none is cut. It is wrapped."""


_PLAIN: Final = (
    (re.compile(r"^Value error, "), ""),
    (re.compile(r"^Input should be greater than or equal to "), "must be at least "),
    (re.compile(r"^Input should be less than or equal to "), "must be at most "),
    (re.compile(r"^Input should be a valid integer.*"), "must be a whole number"),
    (re.compile(r"^Input should be a valid number.*"), "must be a number"),
    (re.compile(r"^Input should be "), "must be "),
)
"""What typer says of an option's value in the words of the library that looks at it, and how a person would."""


class Grouped(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            for begin, instead in _PLAIN:
                error.message = begin.sub(instead, error.message)
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of the groups; those that are in none at the end."""
        known = super().list_commands(ctx)
        ordered = [name for names in GROUPS.values() for name in names if name in known]
        return ordered + [name for name in known if name not in ordered]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        known = self.list_commands(ctx)
        grouped = {name for names in GROUPS.values() for name in names}
        others = [name for name in known if name not in grouped]
        for title, names in (*GROUPS.items(), ("Commands", others)):
            rows = list(self._rows(ctx, [name for name in names if name in known]))
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _rows(self, ctx: Any, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        width = max(len(name) for names in GROUPS.values() for name in names)
        for name in names:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name.ljust(width), command.get_short_help_str(_LONGEST)
