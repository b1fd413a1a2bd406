"""What `dstream check` finds, one line a finding, and how DStream's own errors become one. Pure; each stage brings its findings.

A check changes nothing: it creates no entity, table, container, lock or offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from common.errors import DStreamError

if TYPE_CHECKING:
    from common.config.settings import Remark


class Outcome(StrEnum):
    """FAIL: a start would end here, or something would not arrive. WARN: it works, and a person should know."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Tool(StrEnum):
    """Who takes the commands of a fix: T-SQL in the source database, or a shell with the Azure CLI."""

    SQL = "sql"
    SHELL = "shell"


@dataclass(frozen=True, slots=True)
class Fix:
    """`commands`, to be run in this order with `tool`. Where no command can help, there are none, and `because` says why. Never a secret."""

    commands: tuple[str, ...] = ()
    tool: Tool | None = None
    because: str | None = None


def by_sql(*statements: str) -> Fix:
    return Fix(statements, Tool.SQL)


def by_shell(*commands: str) -> Fix:
    return Fix(commands, Tool.SHELL)


def by_hand(because: str) -> Fix:
    """`because`: why no command can help; what to do instead is the finding's hint."""
    return Fix(because=because)


NOT_KNOWN = by_hand("the sentence of the error says what to do")

BY_EDITING = by_hand("the configuration is changed by hand")


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject`: what was looked at. `hint`: what a person can do about it; None where there is nothing to do. `fix`: the same as commands;
    None for what is OK.
    """

    outcome: Outcome
    subject: str
    text: str
    hint: str | None = None
    fix: Fix | None = None

    def __str__(self) -> str:
        """The line: `fail  CDC: not enabled for the database: EXEC sys.sp_cdc_enable_db`."""
        line = f"{self.outcome:<5} {self.subject}: {self.text}"
        return f"{line.rstrip('.')}: {self.hint}" if self.hint else line


def ok(subject: str, text: str) -> Finding:
    return Finding(Outcome.OK, subject, text)


def warn(subject: str, text: str, hint: str | None = None, *, fix: Fix) -> Finding:
    return Finding(Outcome.WARN, subject, text, hint, fix)


def fail(subject: str, text: str, hint: str | None = None, *, fix: Fix) -> Finding:
    return Finding(Outcome.FAIL, subject, text, hint, fix)


def failed(subject: str, error: DStreamError, *, fix: Fix = NOT_KNOWN) -> Finding:
    return fail(subject, error.message, error.hint, fix=fix)


def guarded(
    subject: str, look: Callable[[], Iterable[Finding]], *, fix: Callable[[DStreamError], Fix] = lambda error: NOT_KNOWN
) -> Iterator[Finding]:
    """The findings of `look`, and one more when it cannot go on: what cannot be reached cannot be used."""
    try:
        yield from look()
    except DStreamError as error:
        yield failed(subject, error, fix=fix(error))


def remarked(remarks: Iterable[Remark]) -> Iterator[Finding]:
    """Settings of the file with an older name, or without effect."""
    for it in remarks:
        text = f"line {it.line}: {it.event}"
        yield warn(it.setting, text, it.hint, fix=BY_EDITING)
