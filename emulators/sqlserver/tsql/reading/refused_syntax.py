"""Syntax that the real server has and this one has not: refused by name ahead of any error about its shape, when it is reached.

A batch with such a statement is read to its end, as the real server reads it: a branch that never runs may hold what is not supported.

Source: https://learn.microsoft.com/sql/t-sql/statements/statements and the pages of the rowset functions
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.passing_over import pass_over
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import WORD, Token, tokenize


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STATEMENTS = (
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
    ("BEGIN", "CONVERSATION"),
    ("BEGIN", "DIALOG"),
    ("END", "CONVERSATION"),
)
_SINGLE = _names(
    "GOTO OPEN FETCH: CLOSE DEALLOCATE DBCC BACKUP RESTORE CHECKPOINT SHUTDOWN READTEXT WRITETEXT UPDATETEXT REVERT RECEIVE "
    "SETUSER DUMP"
)
_FUNCTIONS = _names(
    "CHANGETABLE CONTAINS CONTAINSTABLE FREETEXT FREETEXTTABLE GENERATE_SERIES OPENDATASOURCE OPENJSON OPENQUERY OPENROWSET "
    "OPENXML SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYTABLE SEMANTICSIMILARITYDETAILSTABLE"
)
SOFT = (frozenset(first for first, _ in _STATEMENTS) | _SINGLE) - STARTS
"""Words that begin such statements, and may be names elsewhere."""
_UNREAD = (
    (("USE", "HINT", "("), "OPTION (USE HINT)"),
    (("OPTIMIZE", "FOR", "("), "OPTION (OPTIMIZE FOR)"),
    (("TABLE", "HINT", "("), "OPTION (TABLE HINT)"),
    (("JSON_OBJECT", "("), "function JSON_OBJECT"),
    *((("(", verb), f"{verb} in FROM") for verb in ("DELETE", "INSERT", "MERGE", "UPDATE")),
)
"""What the query parser stumbles over. https://learn.microsoft.com/sql/t-sql/queries/from-transact-sql (a nested DML statement)"""


def refused_statement(first: Token, second: Token) -> SqlError | None:
    """The refusal of a statement that begins with these tokens."""
    if (first.key, second.key) in _STATEMENTS:
        return unsupported(f"{first.key} {second.key}")
    return unsupported(f"{first.text.upper()} statement") if first.key in _SINGLE else None


def refused_query(text: str) -> SqlError | None:
    """The refusal of a query that cannot be read, if it holds what only the real server reads."""
    keys = [token.key for token in tokenize(text)]
    for words, name in _UNREAD:
        if any(tuple(keys[at : at + len(words)]) == words for at in range(len(keys))):
            return unsupported(name)
    return None


def refused_functions(tokens: Sequence[Token]) -> list[int]:
    """Where rowset functions and full-text predicates stand that are not here."""
    return [
        index
        for index, token in enumerate(tokens)
        if token.kind == WORD and token.key in _FUNCTIONS and tokens[index + 1].key == "("
    ]


def refused(reader: Reader, begin: int, refusal: SqlError) -> st.Refused:
    """The statement that began at `begin` as one that fails when it is reached; the reader goes on behind it."""
    tokens = reader.tokens
    line = reader.sql.count("\n", 0, tokens[begin].start) + 1
    pair = begin + 1 < len(tokens) and (tokens[begin].key, tokens[begin + 1].key) in _STATEMENTS
    pass_over(reader, begin, 2 if pair else 1)
    return st.Refused(line, refusal.message)
