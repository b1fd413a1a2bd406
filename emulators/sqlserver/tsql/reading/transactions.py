"""COMMIT, ROLLBACK and SAVE, and the names of transactions; BEGIN is read where blocks are (batch.py).

Refuses names in variables, and DELAYED_DURABILITY.
"""

from __future__ import annotations

from emulators.sqlserver.tsql.errors import unsupported
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.statements import Statement
from emulators.sqlserver.tsql.reading.tokens import QUOTED, VARIABLE, WORD


def transaction_name(reader: Reader) -> str:
    token = reader.here
    if token.kind == VARIABLE:
        raise unsupported("a transaction name in a variable")
    if token.kind == QUOTED or (token.kind == WORD and token.key not in STARTS and token.key not in ("ELSE", "WITH")):
        return reader.name()
    return ""


def parse_commit(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        transaction_name(reader)
    else:
        reader.accept("WORK")
    if reader.at("WITH", "("):
        raise unsupported("COMMIT ... WITH (DELAYED_DURABILITY)")
    return st.CommitTransaction(line)


def parse_rollback(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if reader.accept("TRAN") or reader.accept("TRANSACTION"):
        return st.RollbackTransaction(line, transaction_name(reader))
    reader.accept("WORK")
    return st.RollbackTransaction(line)


def parse_save(reader: Reader) -> Statement:
    line = reader.line()
    reader.advance()
    if not (reader.accept("TRAN") or reader.accept("TRANSACTION")):
        raise reader.unexpected()
    name = transaction_name(reader)
    if not name:
        raise reader.unexpected()
    return st.SaveTransaction(line, name)
