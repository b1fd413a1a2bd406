"""Every error that DStream raises on purpose: one root, and one class for each thing that a caller can do about it.

Foreign exceptions are translated where they enter (the adapters) and kept as the cause. A message begins with a participle and
gives facts ("reading change table cdc.dbo_Persons_CT: ..."); a hint says what a person must do. Neither ever holds a secret, or a value of
a row.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path


class DStreamError(Exception):
    """Root of all errors raised on purpose; `hint` says how to fix it, for a person."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def with_hint(self, otherwise: str) -> str:
        """For a page that must say what to do. `otherwise`: the hint where the error has none of its own."""
        return f"{self.message} ({self.hint or otherwise})"


class ConfigurationError(DStreamError):
    """The configuration or the command line is wrong: stop with status 2 and show every problem."""

    def __init__(self, problems: Sequence[str], *, hint: str | None = None) -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class TransientError(DStreamError):
    """It may work later: back off and try again."""


class ConnectionLost(TransientError):
    """The connection is lost, or the server behind it: every other statement on it would fail as well. Any other TransientError concerns one
    statement, and the next may work."""


class Throttled(TransientError):
    """The service is busy and has refused. Nothing is in doubt, and the link still works."""


class LockLost(TransientError):
    """The lock of received messages is lost: those not completed come again, here or elsewhere."""


class Unanswered(TransientError):
    """The service did not answer, so it is unknown whether it did what was asked."""


class EntityDisabled(TransientError):
    """The entity is disabled: it accepts nothing until a person enables it."""


class PermanentError(DStreamError):
    """Trying again cannot help: stop this table, dead-letter this message, or end with status 1."""


class Unfit(PermanentError):
    """What was asked for does not fit what is there, such as a position outside of the log: ask for something else."""


class EntityUnavailable(PermanentError):
    """The entity is missing, or the right to use it, whatever is sent: no one table or message is at fault.

    A person must act (create the entity, renew the key, assign the role); after that the same process can go on.
    """


class EntityMissing(EntityUnavailable):
    """The entity does not exist, and did not while this process has used it."""


class Stopped(DStreamError):
    """The process was asked to stop while it was starting: abandon the start and end with status 0."""


class LeaseLost(DStreamError):
    """Another owner holds the table's lock, or may hold it: stop this table before its next send."""


def unforeseen(error: BaseException) -> str:
    """An error that nobody raised on purpose, where rows are at hand: its type and place. Its text may quote a value of a row, which may be
    one that is masked; only the operating system's texts cannot."""
    if isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    at = f", raised in {frames[-1].name}, {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{at}"
