"""PostgreSQL's errors as DStream's. Never a row's value: the server quotes values in its texts about data, so those are left out.

An error about the data of a statement (`Unfit`) concerns one message or more of it; the sender finds out which.
"""

from __future__ import annotations

from typing import Final

import psycopg

from common.errors import ConnectionLost, DStreamError, EntityMissing, EntityUnavailable, Throttled, TransientError

_ABOUT_DATA: Final = ("21", "22", "23", "44", "54", "P0", "27", "2F", "38", "39")
"""Classes: cardinality, data, constraints, check option, limits, and what triggers raise."""
_LOST: Final = ("08", "57P")
_QUIET: Final = ("08", "25", "28", "3D", "3F", "40", "42", "53", "55", "57", "58")
"""Classes whose texts hold names at most."""
_TABLE_CHANGED: Final = ("42703", "42P01", "42P10", "42804", "0A000", "3F000")
"""Perhaps the table is no longer as it was when its columns were read: another column, type or key, a cached plan."""

_STANDBY = "the server is read-only: name all servers of the cluster in host, the one that accepts writes is then used"
_FULL = "free space on the database server"
_HINTS: Final = {
    "25006": _STANDBY,
    "53100": _FULL,
    "53300": "raise max_connections of the server, or lower `connections` of the output",
    "57014": "it took longer than `timeout` of the output: look for locks that others hold on the table",
    "55P03": "somebody else holds a lock on the table",
}

_AT_THE_DOOR: Final = (
    ("authentication failed", "check user and password of the output"),
    ("no password supplied", "set password of the output"),
    ('FATAL:  role "', "create the role, or correct `user` of the output"),
    ('FATAL:  database "', "create the database, or correct `database` of the output"),
    ("no pg_hba.conf entry", "let pg_hba.conf of the server accept this user, database, address and TLS"),
    ("certificate verify failed", "check tls, ca_file and the certificate of the server"),
    (
        "does not support SSL",
        'switch TLS on at the server, or set tls = "disable" on the output if the network is your own',
    ),
    ("permission denied for database", "GRANT CONNECT ON DATABASE to the role"),
)
_FULL_HOUSE: Final = ("too many connections", "too many clients", "remaining connection slots")
"""What a refused login says, in English: libpq passes no code on. Servers of other languages are tried again."""


class Unfit(Exception):
    """The server refuses the data of a statement. `words`: why, without values."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class TableChanged(Exception):
    """The table may not be as it was."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(error.sqlstate)
        self.error = error


def about_data(error: psycopg.Error) -> Unfit | None:
    state = error.sqlstate or ""
    if not state.startswith(_ABOUT_DATA):
        return None
    return Unfit(words_of(error))


def table_changed(error: psycopg.Error) -> bool:
    return (error.sqlstate or "") in _TABLE_CHANGED


def keeps_connection(error: psycopg.Error) -> bool:
    """Whether another statement on the same connection may do better."""
    return about_data(error) is not None or table_changed(error)


def words_of(error: psycopg.Error) -> str:
    """The kind of error with its code; the constraint and the column where the server names them, and its text where that holds no value."""
    state = error.sqlstate or ""
    kind = type(error).__name__
    parts = [f"{kind} ({state})" if state else kind]
    diag = error.diag
    if diag.context:  # a function of the user speaks, such as a trigger, which may put a value anywhere
        return parts[0]
    for name, value in (
        ("constraint", diag.constraint_name),
        ("column", diag.column_name),
        ("type", diag.datatype_name),
    ):
        if value:
            parts.append(f'{name} "{value}"')
    if state.startswith(_QUIET) and diag.message_primary:
        parts.append(diag.message_primary)
    return ", ".join(parts)


def translated(error: psycopg.Error, doing: str, place: str, user: str) -> DStreamError:
    """`doing`: a participle and what it is about."""
    state = error.sqlstate
    if state is None:
        return _without_code(error, doing)
    text = f"{doing}: {words_of(error)}"
    if state in ("42P01", "3F000"):
        return EntityMissing(text, hint="create it, or let the output do so (docs/outputs/postgres.md)")
    if state == "42501":
        return EntityUnavailable(text, hint=f'GRANT what the role "{user}" lacks: `dstream plan` prints the statements')
    if state.startswith(("28", "3D")):
        return EntityUnavailable(text, hint="check user, password and database of the output")
    if state.startswith(("42", "0A")):
        return EntityUnavailable(text, hint=f"check that {place} is as docs/outputs/postgres.md asks")
    if state == "53300":
        return Throttled(text, hint=_HINTS[state])
    kind = ConnectionLost if state.startswith(_LOST) or state == "25006" else TransientError
    return kind(text, hint=_HINTS.get(state))


def _without_code(error: psycopg.Error, doing: str) -> DStreamError:
    """Of the connection itself: libpq's text, with host and port."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    words = "; ".join(dict.fromkeys(line for line in lines if line)) or type(error).__name__
    if any(part in words for part in _FULL_HOUSE):
        return Throttled(f"{doing}: {words}", hint=_HINTS["53300"])
    for part, hint in _AT_THE_DOOR:
        if part in words:
            return EntityUnavailable(f"{doing}: {words}", hint=hint)
    return ConnectionLost(f"{doing}: {words}", hint="check that the server runs and that host and port are right")
