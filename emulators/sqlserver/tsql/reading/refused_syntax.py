"""Syntax that the real server has and this one has not, found among the tokens: refused by name ahead of any error about its shape.

Source: https://learn.microsoft.com/sql/t-sql/statements/statements and the pages of the rowset functions
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading.tokens import WORD, Token


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STATEMENTS = (
    ("INSERT", "BULK"),
    ("BULK", "INSERT"),
    ("UPDATE", "STATISTICS"),
    ("EXECUTE", "AS"),
    ("EXEC", "AS"),
    ("ENABLE", "TRIGGER"),
    ("DISABLE", "TRIGGER"),
    ("ADD", "SIGNATURE"),
    ("ADD", "SENSITIVITY"),
    ("SEND", "ON"),
    ("GET", "CONVERSATION"),
    ("MOVE", "CONVERSATION"),
)
_SINGLE = _names(
    "GOTO OPEN FETCH CLOSE DEALLOCATE DBCC BACKUP RESTORE CHECKPOINT SHUTDOWN READTEXT WRITETEXT UPDATETEXT REVERT RECEIVE "
    "SETUSER DUMP"
)
_FUNCTIONS = _names(
    "CHANGETABLE CONTAINS CONTAINSTABLE FREETEXT FREETEXTTABLE GENERATE_SERIES OPENDATASOURCE OPENJSON OPENQUERY OPENROWSET "
    "OPENXML SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYTABLE SEMANTICSIMILARITYDETAILSTABLE"
)


def refused_statement(first: Token, second: Token) -> SqlError | None:
    """The refusal of a statement that begins with these tokens."""
    if (first.key, second.key) in _STATEMENTS:
        return unsupported(f"{first.key} {second.key}")
    return unsupported(f"{first.key} statement") if first.key in _SINGLE else None


def check_functions(tokens: Sequence[Token]) -> None:
    """Raises 50001 for a rowset function or full-text predicate that is not here."""
    for index, token in enumerate(tokens):
        if token.kind == WORD and token.key in _FUNCTIONS and tokens[index + 1].key == "(":
            raise unsupported(f"function {token.key}")
