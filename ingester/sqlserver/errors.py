"""What SQL Server's errors mean to the ingester: a table of numbers. Pure, so that each can be tested without a server.

An error that is not in the table is retried: a retry never loses anything, while a stopped table waits for a person. So
the table lists the errors that retrying cannot fix, and hints for some of the others.
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from common.errors import ConnectionLost, DStreamError, PermanentError, TransientError
from ingester.source import UNREACHABLE
from ingester.sqlserver.hints import ENABLE_AGAIN, READ_SCHEMA_CDC

RIGHTS = frozenset({229, 230, 262, 297, 300, 371, 916, 1088, 2760, 15151, 15247})
"""A permission is missing."""

_SHAPE = frozenset({102, 105, 156, 170, 195, 201, 207, 208, 209, 214, 2812, 4104, 8144, 8145, 8146, 8155})
"""An object that the statement names does not exist, or has another shape."""

_OWN_TABLE = re.compile(r"\bdbo\.cdc_\w+")

_TOO_SMALL = frozenset({2628, 8152})

_PERMANENT: tuple[tuple[frozenset[int], str], ...] = (
    (RIGHTS, "docs/install.md lists the rights that the login needs, as statements to run"),
    (
        _SHAPE,
        "check that DStream's tables (dbo.cdc_offsets and others) are as docs/install.md describes them, and the compatibility level",
    ),
    (
        _TOO_SMALL,
        "if it was an offset that was to be stored, widen the columns of dbo.cdc_offsets as docs/install.md describes them",
    ),
)

_FAILOVER = frozenset({976, 978, 979, 981, 982, 983, 988, 3906, 3908, 4221})
_UNAVAILABLE = frozenset(
    {615, 904, 921, 922, 923, 924, 926, 927, 942, 945, 952, 4060}
    | {6001, 6002, 6005, 6006, 17142, 17187, 17188, 18401, 18451}
)
_AZURE = frozenset({40143, 40166, 40197, 40540, 40544, 42108, 42109})
_RESUMING = frozenset({40613})
_AZURE_LIMITS = frozenset({10928, 10929, 10936, 40501, 49918, 49919, 49920})
_SESSION_LIMITS = frozenset({40549, 40550, 40551, 40552, 40553})
_MEMORY = frozenset({701, 802, 1204, 8628, 8645, 8651})
_SPACE = frozenset({1101, 1105, 3967, 9002})
_ENDED = frozenset({596})
_CONFLICT = frozenset({601, 1205, 1222, 3960, 3961})
_LOCKED = frozenset({1222})
_STORAGE = frozenset({823, 824, 829})

_TRANSIENT: tuple[tuple[frozenset[int], str | None], ...] = (
    (
        _FAILOVER,
        "the replica is not the primary yet or any more: connect to the availability group's listener, without ApplicationIntent=ReadOnly",
    ),
    (
        _UNAVAILABLE,
        "the server or the database is starting, stopping, offline, being restored, or open to a single user",
    ),
    (
        _AZURE,
        "the service is moving the database, or has an update or a failure of its own: most last less than a minute",
    ),
    (
        _RESUMING,
        "the service is moving the database, or the serverless database is resuming, which takes about a minute: Connect Timeout=60 covers that",
    ),
    (_AZURE_LIMITS, "a limit of the tier is reached (sessions, workers, requests): if it lasts, choose a larger tier"),
    (
        _SESSION_LIMITS,
        "the service ended the session for its resource usage (time, locks, tempdb, log, memory): choose a larger tier",
    ),
    (_MEMORY, "the server is short of memory or locks"),
    (_SPACE, "the server is out of space for data, log or tempdb"),
    (_ENDED, "KILL or the server ended the session"),
    (_LOCKED, "another session has held a lock for long: sys.dm_tran_locks and sys.dm_exec_requests show which"),
    (_CONFLICT, None),
    (_STORAGE, "the server cannot read its files: run DBCC CHECKDB"),
)

PASSING = frozenset[int]().union(*(numbers for numbers, _ in _TRANSIENT))
"""Errors about the server's state, whatever the statement asks for. An error that is in no list may be about the statement."""

NOT_READY = _FAILOVER | _UNAVAILABLE - {4060} | _AZURE | _RESUMING | _AZURE_LIMITS | _MEMORY
"""Errors of a login that pass by themselves. Not 4060, which may also mean a wrong name."""

_LOST = _FAILOVER | _UNAVAILABLE | _AZURE | _RESUMING | _AZURE_LIMITS | _SESSION_LIMITS | _ENDED

VICTIMS = _CONFLICT
"""Errors that end a statement and leave its session as it was. https://learn.microsoft.com/sql/relational-databases/errors-events"""

OF_VALUES = frozenset(
    {220, 232, 235, 236, 241, 242, 244, 245, 248, 295, 402, 517, 529}
    | {8114, 8115, 8117, 8134, 8169, 9819, 13609}
    | {6522}  # from .NET, of hierarchyid, geometry and geography
)
"""A value that cannot be converted or computed with."""

_BEFORE_VALUES: Mapping[frozenset[int], re.Pattern[str]] = {
    OF_VALUES: re.compile(r"""[^'"(=«„“]*"""),
    frozenset({1505, 2601, 2627}): re.compile(r"[^(]*"),  # a duplicate key: its values come in parentheses
    frozenset({2628}): re.compile(r"(?:[^']*'[^']*'){0,2}[^']*"),  # table and column, then what would be truncated
}
"""By numbers of errors whose texts may quote values of a row: what comes before them, in a server's other languages too."""

_CLOSED = "the connection is closed"
_NOT_CONNECTED = "Not connected to any MS SQL server"
"""What the driver says then, with number 0."""

_REMARKS: Mapping[int, str] = {
    20002: "the connection broke while logging in",
    20003: "no answer in time",
    20004: "the connection broke while reading",
    20006: "the connection broke while writing",
    20017: "the server closed the connection",
    20020: "the answer was truncated or corrupt",
    20047: "the connection is dead",
    0: _CLOSED,
}
"""The driver's own numbers, whose texts are long or missing. https://www.freetds.org/ (sybdb.h)"""


def meaning(number: int, text: str, where: str) -> DStreamError:
    """The project's error for a statement's error. `where`: a participle or a place; `text`: the server's own words, if
    any.

    ConnectionLost: errors of the server, the database or the session, and all errors of the driver itself.
    """
    text = "" if text == _NOT_CONNECTED else without_values(number, text)
    said = f"error {number}: {text}" if text else _REMARKS.get(number, f"error {number}")
    for numbers, hint in _PERMANENT:
        if number in numbers:
            refused = f"permission denied: {text}" if number in RIGHTS else said
            return PermanentError(f"{where}: {refused}", hint=_of_its_object(number, text) or hint)
    kind = ConnectionLost if number in _LOST or not text else TransientError
    return kind(f"{where}: {said}", hint=hint_for(number))


def without_values(number: int, text: str) -> str:
    """The server's words up to the first value of a row: it may be one of a column that is masked or left out."""
    before = next((pattern for numbers, pattern in _BEFORE_VALUES.items() if number in numbers), None)
    if before is None or (found := before.match(text)) is None or found.end() == len(text):
        return text
    return f"{found[0].rstrip()} ***"


def _of_its_object(number: int, text: str) -> str | None:
    """The hint where the text names an object of schema cdc, or one of DStream's own tables."""
    if number in RIGHTS and "'cdc'" in text:
        return READ_SCHEMA_CDC
    if number in _SHAPE and "'cdc." in text:
        return f"enable Change Data Capture for the database: {ENABLE_AGAIN}"
    if number in _SHAPE and (own := _OWN_TABLE.search(text)) is not None:
        return f"check that {own[0]} exists and is as docs/install.md describes it"
    return None


def hint_for(number: int) -> str | None:
    """What a person can do about an error that is retried."""
    if number in _REMARKS:
        return UNREACHABLE
    return next((hint for numbers, hint in _TRANSIENT if number in numbers), None)


def number_and_text(error: Exception) -> tuple[int, str]:
    """From a driver's error, which nests (number, text) and appends its own remarks to the server's text."""
    arguments: Any = error.args
    while arguments and isinstance(arguments[0], tuple):
        arguments = arguments[0]
    number = arguments[0] if arguments and isinstance(arguments[0], int) else 0
    raw = arguments[1] if len(arguments) > 1 else (arguments[0] if arguments else "")
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    return number, text.split("DB-Lib error message")[0].strip().replace("\n", " ")
