"""What a console refuses on its own account, before a port is asked. HTTP and gRPC answer each in their own words."""

from __future__ import annotations

from common.errors import PermanentError, TransientError
from desk.desk import Conflict


class Unauthenticated(PermanentError):
    """Nobody knows who asks."""


class NotAllowed(PermanentError):
    """Whoever asks, it is not done: the console is read-only, or the request may come from a foreign page."""


class Missing(PermanentError):
    """This console has no such part: it is not built, or what it needs is not configured."""


class AuditUnavailable(PermanentError):
    """The line of a change cannot be written, so the change is not made."""


class TooMany(TransientError):
    """The client asks too often, or too many ask at once. `after`: seconds until it may be asked again."""

    def __init__(self, message: str, *, after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.after = after


class Busy(TooMany):
    """Too many requests of this kind wait already, whoever asked."""


class GivenUp(Conflict):
    """Nobody waited for the change any longer when it was its turn, so it is not made."""


class Overdue(TransientError):
    """There was no answer in time. A change that is being written is still made: the audit log says."""
