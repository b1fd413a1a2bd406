"""What SET changes for one session; statements/options.py reads the statements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """SET options. `lock_timeout` in milliseconds, -1: wait without end. `identity_insert`: (database, object id)."""

    nocount: bool = False
    xact_abort: bool = False
    lock_timeout: int = -1
    isolation: str = "READ COMMITTED"
    identity_insert: tuple[str, int] | None = None
    implicit_transactions: bool = False
    fmtonly: bool = False
