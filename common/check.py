"""What `dstream check` finds, one line a finding, and how DStream's own errors become one. Pure; each stage brings its findings.

A check changes nothing: it creates no entity, table, container, lock or offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from common.errors import DStreamError


class Outcome(StrEnum):
    """FAIL: a start would end here, or something would not arrive. WARN: it works, and a person should know."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject`: what was looked at. `hint`: what a person can do about it; None where there is nothing to do."""

    outcome: Outcome
    subject: str
    text: str
    hint: str | None = None

    def __str__(self) -> str:
        """The line: `fail  CDC: not enabled for the database: EXEC sys.sp_cdc_enable_db`."""
        line = f"{self.outcome:<5} {self.subject}: {self.text}"
        return f"{line}: {self.hint}" if self.hint else line


def ok(subject: str, text: str) -> Finding:
    return Finding(Outcome.OK, subject, text)


def warn(subject: str, text: str, hint: str | None = None) -> Finding:
    return Finding(Outcome.WARN, subject, text, hint)


def fail(subject: str, text: str, hint: str | None = None) -> Finding:
    return Finding(Outcome.FAIL, subject, text, hint)


def guarded(subject: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of `look`, and one more when it cannot go on: what cannot be reached cannot be used."""
    try:
        yield from look()
    except DStreamError as error:
        yield fail(subject, error.message, error.hint)
