"""Lines in the audit log for commands whose changes the source's database records by itself: pauses, offsets, snapshots.

A log that cannot be written is a warning on standard error, and the change is made: the database says who asked. Where the log is the only record,
as of dead letters, nothing is changed without it (`desk/dead_letters`).
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from common.errors import ConfigurationError, DStreamError
from desk.importing import imported

Reason = Annotated[str | None, typer.Option("--why", "--reason", metavar="TEXT", help="Why; kept with the change.")]
AuditPlace = Annotated[
    Path | None,
    typer.Option(
        "--audit-file",
        envvar="DSTREAM_AUDIT_FILE",
        metavar="FILE",
        help="The audit log (default: ~/.local/state/dstream/audit.jsonl).",
    ),
]

_TARGET, _REASON, _WHY = 600, 1000, 2000


@dataclass(slots=True)
class Said:
    """What came of it, for the line at the end; `done` unless it is changed."""

    outcome: Literal["done", "refused"] = "done"
    details: dict[str, Any] = field(default_factory=dict)

    def refused(self, why: str) -> None:
        self.outcome, self.details = "refused", {"why": why}


@contextmanager
def audited(
    action: str,
    target: str,
    reason: str | None = None,
    *,
    audit_file: Path | None = None,
    dry_run: bool = False,
    **details: Any,
) -> Iterator[Said]:
    """A line before what is done in its context, and one after it, by the user of the operating system. A dry run has none.

    `audit_file`: None for the usual place. `details`: for the first line; of `order` only what was given.
    """
    said = Said()
    if "order" in details:
        details["order"] = {name: value for name, value in details["order"].items() if value}
    write = _nothing if dry_run else _writing(action, target, reason, audit_file)
    write("begun", details)
    try:
        yield said
    except BaseException as error:
        refused = isinstance(error, ConfigurationError)
        why = error.message if isinstance(error, DStreamError) else type(error).__name__
        write("refused" if refused else "failed", {"why": why[:_WHY]})
        raise
    write(said.outcome, said.details)


def _nothing(outcome: str, details: dict[str, Any]) -> None:
    """Of a dry run."""


def _writing(
    action: str, target: str, reason: str | None, audit_file: Path | None
) -> Callable[[str, dict[str, Any]], None]:
    """Writes a line; says once where none can be written."""
    warned = False

    def write(outcome: str, details: dict[str, Any]) -> None:
        nonlocal warned
        try:
            place.write(actor, action, target[:_TARGET], outcome, reason=told, **details)
        except DStreamError as error:
            if not warned:
                _warn(error)
            warned = True

    told = None if reason is None else reason[:_REASON]
    try:
        log = imported("desk.audit")
        place = log.AuditFile(audit_file or log.default_place())
        actor = imported("desk.desk").Actor(log.local_user(), "command", secrets.token_hex(8))
    except DStreamError as error:
        _warn(error)
        return _nothing
    return write


def _warn(error: DStreamError) -> None:
    print(f"warning: {error.message}; the database has the only record of this change", file=sys.stderr)
