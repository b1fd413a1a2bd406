"""Lowers constants: literals, national strings, bytes and NULL, each with the type that T-SQL gives to it as written."""

from __future__ import annotations

from sqlglot import exp

from emulators.sqlserver.codepages import kept
from emulators.sqlserver.collation import known
from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql.planning.operand_lowering import OperandLowering
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.reading import fragments
from emulators.sqlserver.tsql.values.types import INT


def quoted(value: Value) -> str:
    """A storage form as a SQLite literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        if "\0" in value:
            return f"CAST(x'{value.encode().hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def literal(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    if node.args.get("is_string"):
        return _text_constant(kept(node.name, known(lowering.names.collation).code_page), "varchar", 8000)
    kind, value = fragments.number(node.name)
    return Expr(quoted(value), kind, False, constant=value)


def national(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    return _text_constant(node.name, "nvarchar", 4000)


def binary_string(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    digits = node.name
    data = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    return Expr(quoted(data), SqlType("varbinary", len(data) or 1), False, constant=data)


def null(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    return Expr("NULL", INT, is_null=True)


def _text_constant(text: str, name: str, limit: int) -> Expr:
    size = len(text) or 1
    return Expr(quoted(text), SqlType(name, size if size <= limit else MAX), False, constant=text)
