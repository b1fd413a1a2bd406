"""Every error DStream raises on purpose: one root, and one class for each thing a caller can do about it.

Foreign exceptions are translated where they enter (the adapters) and kept as the cause. A message is a participle
with facts ("reading change table cdc.dbo_Persons_CT: ..."); a hint says what a person must do. Neither ever holds a secret.
"""

from __future__ import annotations

from collections.abc import Sequence


class DStreamError(Exception):
    """Root of all errors raised on purpose; `hint` is the remedy, for a person."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigurationError(DStreamError):
    """The configuration or the command line is wrong: stop with status 2 and show every problem."""

    def __init__(self, problems: Sequence[str], *, hint: str | None = None) -> None:
        super().__init__("\n".join(problems), hint=hint)
        self.problems = tuple(problems)


class TransientError(DStreamError):
    """It may work later: back off and try again."""


class ConnectionLost(TransientError):
    """The connection is gone, or what it leads to: whatever else was to go over it would meet the same. Of any other TransientError one
    statement is the victim, and the next may work."""


class Throttled(TransientError):
    """The service is busy and has refused; nothing is in doubt, and nothing is wrong with the link."""


class LockLost(TransientError):
    """The lock of what was received is gone: what was not completed comes again, here or elsewhere."""


class Unanswered(TransientError):
    """The service did not say whether it did what it was asked for."""


class DestinationDisabled(TransientError):
    """The entity is switched off: it takes nothing from anybody until a person enables it."""


class PermanentError(DStreamError):
    """Trying again cannot help: stop this table, dead-letter this message, or end with status 1."""


class DestinationUnavailable(PermanentError):
    """The entity, or the right to use it, is refused, whatever is sent: it says nothing of any one table or message.

    A person must act (create the entity, renew the key, assign the role); after that the same process can go on.
    """


class Stopped(DStreamError):
    """The process was asked to stop while it was starting: give up what is under way, and end with status 0."""


class LeaseLost(DStreamError):
    """Another owner holds the table's lock, or may hold it by now: stop this table before its next send."""
