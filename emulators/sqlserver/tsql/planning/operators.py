"""Lowers operators: arithmetic, bits and concatenation, and the parentheses around them.

The types of both sides decide what an operator does. Whole numbers, decimals and floats each have an arithmetic of their own in
values/arithmetic.py. Refuses the pairs of types that T-SQL has no operator for: 206, 402, 8117.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning.constants import quoted
from emulators.sqlserver.tsql.planning.operand_lowering import OperandLowering
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.values import arithmetic
from emulators.sqlserver.tsql.values.types import INT, family, literal_shape, merged
from emulators.sqlserver.tsql.values.types import arithmetic as arithmetic_type

SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}


def parenthesis(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    inner = lowering.expression(node.this, scope)
    return replace(inner, sql=f"({inner.sql})")


def negative(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    value = lowering.expression(node.this, scope)
    if isinstance(value.constant, int | float):
        return Expr(quoted(-value.constant), value.type, False, constant=-value.constant)
    if isinstance(value.constant, str) and family(value.type) == "exact":
        return Expr(quoted("-" + value.constant), value.type, False, constant="-" + value.constant)
    if family(value.type) not in ("int", "exact", "float"):
        raise errors.invalid_operator(value.type.name, "minus")
    kind = INT if value.type.name in ("bit", "tinyint") else value.type
    return lowering.call(("negative", kind), lambda: arithmetic.negated(kind), [value], kind)


def inverted(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    value = lowering.expression(node.this, scope)
    if family(value.type) != "int":
        raise errors.invalid_operator(value.type.name, "'~'")
    sql = f"(1 - {value.sql})" if value.type.name == "bit" else f"(~{value.sql})"
    return Expr(sql, value.type, value.nullable)


def binary(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    assert isinstance(node, exp.Binary)
    symbol = SYMBOLS[type(node)]
    left, right = lowering.expression(node.left, scope), lowering.expression(node.right, scope)
    if left.is_null or right.is_null:
        kind = right.type if left.is_null else left.type
        return Expr("NULL", kind, is_null=left.is_null and right.is_null)
    groups = (family(left.type), family(right.type))
    if symbol == "+" and groups == ("string", "string"):
        joined = Expr(f"({left.sql} || {right.sql})", _concatenated(left.type, right.type))
        return lowering.labelled(joined, [left, right], "add")
    if symbol == "+" and groups == ("binary", "binary"):
        joins = f"{_joins(left)} || {_joins(right)}"
        return Expr(_blob(joins), _concatenated(left.type, right.type), joins=joins)
    if "date" in groups:
        return _date_arithmetic(lowering, symbol, left, right)
    left, right = _numbers(lowering, left, right, symbol)
    kind = arithmetic_type(
        symbol,
        literal_shape(left.type, left.constant, right.type),
        literal_shape(right.type, right.constant, left.type),
    )
    if symbol in "&|^" and family(kind) != "int":
        raise errors.invalid_operator(kind.name, f"'{symbol}'")
    make = {"int": arithmetic.whole, "float": arithmetic.floating}.get(family(kind), arithmetic.exact)
    called = lowering.call((symbol, kind), lambda: make(symbol, kind), [left, right], kind)
    if symbol == "%" and family(kind) == "int":
        return _remainder(called, left, right)
    return called


def _blob(joins: str) -> str:
    return f"CAST({joins} AS BLOB)"


def _joins(side: Expr) -> str:
    """What SQLite joins, which it takes for text without a look inside; only the whole becomes a BLOB again."""
    return side.joins if side.sql == _blob(side.joins) else side.sql


def _remainder(called: Expr, left: Expr, right: Expr) -> Expr:
    """By SQLite itself, whose sign is the dividend's, too; but it makes NULL of a division by zero."""
    own = f"({left.sql} % {right.sql})"
    if isinstance(right.constant, int) and right.constant > 0:
        return replace(called, sql=own)
    return replace(called, sql=f"(CASE WHEN {right.sql} > 0 THEN {own} ELSE {called.sql} END)")


def _date_arithmetic(lowering: OperandLowering, symbol: str, left: Expr, right: Expr) -> Expr:
    if family(left.type) != "date" and symbol == "+":
        left, right = right, left
    kind = left.type
    old = ("datetime", "smalldatetime")
    if family(left.type) == "date" == family(right.type):
        if symbol not in "+-" or left.type.name not in old or right.type.name not in old:
            raise errors.incompatible(left.type.name, right.type.name, symbol)
        both = (left.type, right.type)
        kind = merged(*both)
        return lowering.call(
            ("dates", symbol, both), lambda: arithmetic.dates(symbol, *both, kind), [left, right], kind
        )
    if kind.name not in old or symbol not in "+-" or family(right.type) not in ("int", "exact", "float"):
        raise errors.type_clash(left.type.name, right.type.name)
    return lowering.call(("days", symbol, kind), lambda: arithmetic.days(symbol, kind), [left, right], kind)


def _numbers(lowering: OperandLowering, left: Expr, right: Expr, symbol: str) -> tuple[Expr, Expr]:
    """A string beside a number becomes that number's type; two strings have no arithmetic."""
    groups = family(left.type), family(right.type)
    numeric = ("int", "exact", "float")
    if groups[0] == "string" and groups[1] in numeric:
        return lowering.cast(left, right.type), right
    if groups[1] == "string" and groups[0] in numeric:
        return left, lowering.cast(right, left.type)
    if groups[0] == "binary" and groups[1] == "int":
        return lowering.cast(left, right.type), right
    if groups[1] == "binary" and groups[0] == "int":
        return left, lowering.cast(right, left.type)
    if groups[0] not in numeric or groups[1] not in numeric:
        bad = left if groups[0] not in numeric else right
        raise errors.invalid_operator(
            bad.type.name, {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}.get(symbol, symbol)
        )
    return left, right


def _concatenated(left: SqlType, right: SqlType) -> SqlType:
    names = {left.name, right.name}
    name = (
        "varbinary" if family(left) == "binary" else "nvarchar" if any(n.startswith("n") for n in names) else "varchar"
    )
    if MAX in (left.length, right.length) or left.length is None or right.length is None:
        return SqlType(name, MAX)
    return SqlType(name, min(left.length + right.length, 4000 if name == "nvarchar" else 8000))
