"""Syntax that the real server has and this one has not: refused by name ahead of any error about its shape, when it is reached.

A batch with such a statement is read to its end, as the real server reads it: a branch that never runs may hold what is not supported.

Source: https://learn.microsoft.com/sql/t-sql/statements/statements and the pages of the rowset functions
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import not_first, unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import END, WORD, Token


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
)
_SINGLE = _names(
    "GOTO OPEN FETCH: CLOSE DEALLOCATE DBCC BACKUP RESTORE CHECKPOINT SHUTDOWN READTEXT WRITETEXT UPDATETEXT REVERT RECEIVE "
    "SETUSER DUMP"
)
_FUNCTIONS = _names(
    "CHANGETABLE CONTAINS CONTAINSTABLE FREETEXT FREETEXTTABLE GENERATE_SERIES OPENDATASOURCE OPENJSON OPENQUERY OPENROWSET "
    "OPENXML SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYTABLE SEMANTICSIMILARITYDETAILSTABLE"
)
_MODULES = _names("PROCEDURE FUNCTION TRIGGER VIEW")
"""CREATE of these takes the rest of the batch."""
_STOPS = STARTS - {"WITH"}
_SOURCES = _names("SELECT EXEC EXECUTE VALUES")


def refused_statement(first: Token, second: Token) -> SqlError | None:
    """The refusal of a statement that begins with these tokens."""
    if (first.key, second.key) in _STATEMENTS:
        return unsupported(f"{first.key} {second.key}")
    return unsupported(f"{first.text.upper()} statement") if first.key in _SINGLE else None


def refused_functions(tokens: Sequence[Token]) -> list[int]:
    """Where rowset functions and full-text predicates stand that are not here."""
    return [
        index
        for index, token in enumerate(tokens)
        if token.kind == WORD and token.key in _FUNCTIONS and tokens[index + 1].key == "("
    ]


def refused(reader: Reader, begin: int, refusal: SqlError) -> st.Refused:
    """The statement that began at `begin` as one that fails when it is reached; the reader goes on behind it."""
    line = reader.sql.count("\n", 0, reader.tokens[begin].start) + 1
    mark, reader.position = reader.position, begin
    _skip(reader, mark)
    return st.Refused(line, refusal.message)


def _skip(reader: Reader, mark: int) -> None:
    """To the next statement, as far as words tell. What stands before `mark` belongs to this one."""
    tokens, begin = reader.tokens, reader.position
    first = tokens[begin].key
    if _is_module(reader):
        if begin:
            kind = _module(reader)
            raise not_first(f"CREATE{'/ALTER' if kind == 'PROCEDURE' else ''} {kind}")
        reader.position = len(tokens) - 1
        return
    depth = cases = 0
    reader.position = begin + (2 if (first, reader.peek().key) in _STATEMENTS else 1)
    while reader.here.kind != END:
        key = reader.here.key
        ends = key in (";", ")") or (key in _STOPS and not _goes_on(tokens, begin, reader.position))
        if ends and depth == 0 and cases == 0 and reader.position >= mark:
            return
        depth += (key == "(") - (key == ")")
        cases += (key == "CASE") - (key == "END" and cases > 0)
        reader.position += 1


def _is_module(reader: Reader) -> bool:
    return reader.here.key in ("CREATE", "ALTER") and _module(reader) in _MODULES


def _module(reader: Reader) -> str:
    """The word behind CREATE, ALTER or CREATE OR ALTER."""
    key = reader.peek(3 if reader.peek().key == "OR" else 1).key
    return "PROCEDURE" if key == "PROC" else key


def _goes_on(tokens: Sequence[Token], begin: int, at: int) -> bool:
    """Whether a word that begins statements stands inside the one that is passed over."""
    first, key = tokens[begin].key, tokens[at].key
    before, after = tokens[at - 1].key, tokens[min(at + 1, len(tokens) - 1)].key
    if first == "WITH" and any(tokens[i].key == "MERGE" and tokens[i - 1].key == ")" for i in range(begin + 1, at)):
        first = "MERGE"
    sourced = any(token.key in _SOURCES for token in tokens[begin + 1 : at])
    return (
        first == "MERGE"
        or before in ("FOR", "ON", "UNION", "ALL", "EXCEPT", "INTERSECT")
        or (first == "INSERT" and key in _SOURCES and not sourced)
        or (first in ("GRANT", "DENY", "REVOKE") and before in (",", first))
        or (key == "SET" and (before in ("DELETE", "UPDATE") or first == "ALTER"))
        or (key == "IF" and first == "DROP" and after == "EXISTS" and tokens[min(at + 2, len(tokens) - 1)].key != "(")
        or (key == "ROLLBACK" and before == "WITH")
    )
