"""Table hints: those that there are, and those of the table that a statement writes to.

Source: https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table
"""

from __future__ import annotations

from itertools import pairwise

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.tokens import WORD

DIRTY = frozenset(("NOLOCK", "READUNCOMMITTED"))
READPAST = "READPAST"
"""Of views alone, which have no rows of their own to lock."""
HINTS = DIRTY | {
    "READCOMMITTED",
    "READCOMMITTEDLOCK",
    READPAST,
    "ROWLOCK",
    "PAGLOCK",
    "TABLOCK",
    "TABLOCKX",
    "UPDLOCK",
    "XLOCK",
    "HOLDLOCK",
    "SERIALIZABLE",
    "REPEATABLEREAD",
    "NOWAIT",
    "FORCESEEK",
    "NOEXPAND",
}
_OF_TARGETS = (HINTS | {"INDEX"}) - {READPAST, "NOWAIT"}
"""Locks on rows need nothing here: the transaction keeps other writers off."""


def hints_of_target(reader: Reader) -> frozenset[str]:
    """The names of the hints behind the table that a statement writes to. Raises 1065."""
    if not reader.at("WITH", "("):
        return frozenset()
    reader.advance()
    begin, depth = reader.position, 0
    reader.skip_parentheses()
    found: set[str] = set()
    for before, token in pairwise(reader.tokens[begin : reader.position]):
        depth += (before.key == "(") - (before.key == ")")
        if depth == 1 and token.kind == WORD and before.key != "=":
            found.add(token.key)
    if found & DIRTY:
        text = (
            "The NOLOCK and READUNCOMMITTED lock hints are not allowed for target tables of INSERT, UPDATE, DELETE or MERGE "
            "statements."
        )
        raise SqlError(1065, text, 15)
    return frozenset(found)


def whole_table(hints: frozenset[str]) -> bool:
    """Whether a statement locks all of the table that it writes to. To be asked when all of it has been read. Raises 50001."""
    if not hints:
        return False
    for hint in sorted(hints - _OF_TARGETS):
        raise unsupported(f"table hint {hint}")
    return bool(hints & {"TABLOCK", "TABLOCKX"})
