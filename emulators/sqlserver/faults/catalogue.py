"""Faults by name, for tests (`with server.inject(DeadlockVictim()):`) and for `--fault NAME[:ARGUMENTS]`.

Each says what it is for and what must remain. They act at the seams: login, statement, bytes sent, capture; none reaches into the
engine's data. Which driver turns them into which exception is not their business.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulators import fault_names
from emulators.sqlserver.faults.capture import (
    CaptureFailing,
    CaptureLagging,
    CaptureStopped,
    ChangeTableLocked,
    LogTimesLocked,
)
from emulators.sqlserver.faults.connections import (
    ConnectionCutAfter,
    LoginRefusedFor,
    LoginSentOn,
    Mute,
    ServerRestart,
)
from emulators.sqlserver.faults.statements import (
    AnswerBrokenOff,
    AnswerDelayed,
    DeadlockVictim,
    LockTimeout,
    QueryThatHangs,
    SessionKilled,
)
from emulators.sqlserver.faults.tables import TableLocked
from emulators.sqlserver.injection import Fault

__all__ = [
    "NAMES", "AnswerBrokenOff", "AnswerDelayed", "CaptureFailing", "CaptureLagging", "CaptureStopped", "ChangeTableLocked", "ConnectionCutAfter",
    "DeadlockVictim", "LockTimeout", "LogTimesLocked", "LoginRefusedFor", "LoginSentOn", "Mute", "QueryThatHangs", "ServerRestart",
    "SessionKilled", "TableLocked", "parse", "usage",
]  # fmt: skip


def _octets(text: str) -> int | None:
    return int(text) if text else None


NAMES: Mapping[str, fault_names.Named[Fault]] = {
    "connection_cut_after": (ConnectionCutAfter, (int, int), "BYTES[,TIMES]"),
    "answer_delayed": (AnswerDelayed, (float, str), "SECONDS[,PATTERN]"),
    "answer_broken_off": (AnswerBrokenOff, (int, int, str), "[TIMES[,ROWS[,PATTERN]]]"),
    "query_that_hangs": (QueryThatHangs, (int, str), "[TIMES[,PATTERN]]"),
    "mute": (Mute, (str, int, _octets, str), "STAGE[,TIMES[,OCTETS[,PATTERN]]]"),
    "deadlock_victim": (DeadlockVictim, (int, str), "[TIMES[,PATTERN]]"),
    "session_killed": (SessionKilled, (int, str), "[TIMES[,PATTERN]]"),
    "login_sent_on": (LoginSentOn, (str, int), "HOST,PORT"),
    "login_refused_for": (LoginRefusedFor, (float, int), "SECONDS[,NUMBER]"),
    "server_restart": (ServerRestart, (float, float), "[AFTER[,AWAY]]"),
    "capture_stopped": (CaptureStopped, (), ""),
    "capture_lagging": (CaptureLagging, (float,), "SECONDS"),
    "capture_failing": (CaptureFailing, (), ""),
    "change_table_locked": (ChangeTableLocked, (str,), "TABLE"),
    "table_locked": (TableLocked, (str, float), "TABLE[,SECONDS]"),
    "log_times_locked": (LogTimesLocked, (), ""),
    "lock_timeout": (LockTimeout, (int, str), "[TIMES[,PATTERN]]"),
}
"""Name to the fault, the types of its arguments, and how people write them."""


def usage() -> str:
    """Every fault's name with its arguments."""
    return fault_names.usage(NAMES)


def parse(text: str) -> Fault:
    """A fault as a command line names it, `NAME[:ARGUMENT,...]`; the last argument may hold commas. Raises ValueError."""
    return fault_names.parse(text, NAMES, last_holds_commas=True)
