"""Lowers the calls whose arguments are no plain values, or whose type rules are their own: CAST and its kin, ISNULL, COALESCE, IIF ..."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning import logical_functions
from emulators.sqlserver.tsql.planning.operand_lowering import OperandLowering
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.tokens import tokenize
from emulators.sqlserver.tsql.values.calls import Call
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import collated, family


def type_from_text(text: str, default_length: int = 30) -> SqlType:
    tokens = tokenize(text)
    reader = Reader(text, tokens)
    kind = reader.type(default_length)
    if reader.position != len(tokens) - 1:
        raise reader.unexpected()
    return kind


def _cast_call(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) < 2 or arguments[0] is None:  # a type alone
        raise errors.syntax(")")
    value = lowering.expression(arguments[0], scope)
    target = type_from_text(arguments[1].name)
    style = 0
    if len(arguments) == 3:
        constant = lowering.expression(arguments[2], scope).constant
        if not isinstance(constant, int):
            raise errors.unsupported("a style of CONVERT that is no literal")
        style = constant
    if not name.startswith("TRY_"):
        return lowering.cast(value, target, style)
    if value.is_null:
        return Expr("NULL", target)
    source, kind = lowering.typed(value), collated(target, lowering.together([value], "convert").name)
    run = converter(source, kind, style)
    found = lowering.call(("try", source, kind, style), lambda: _trying(run), [value], kind)
    return lowering.labelled(found, [value], "convert")


def _isnull(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) != 2:
        raise errors.argument_count("isnull", 2)
    first, second = (lowering.expression(argument, scope) for argument in arguments)
    kind = second.type if first.is_null else first.type
    replaced = lowering.represented(second, kind) if family(kind) != "string" else lowering.cast(second, kind)
    found = Expr(f"ifnull({first.sql}, {replaced.sql})", kind, second.nullable)
    return lowering.labelled(found, [second if first.is_null else first], "isnull")


def _coalesce(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) < 2:
        raise errors.argument_count("coalesce", 2)
    values = [lowering.expression(argument, scope) for argument in arguments]
    kind = lowering.unify(values)
    listed = ", ".join(lowering.represented(value, kind).sql for value in values)
    found = Expr(f"coalesce({listed})", kind, all(value.nullable for value in values))
    return lowering.labelled(found, values, "CASE")


def _nullif(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) != 2:
        raise errors.argument_count("nullif", 2)
    value = lowering.expression(arguments[0], scope)
    same = lowering.condition(exp.EQ(this=arguments[0], expression=arguments[1]), scope)
    return lowering.labelled(Expr(f"CASE WHEN {same} THEN NULL ELSE {value.sql} END", value.type), [value], "CASE")


def _iif(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) != 3:
        raise errors.argument_count("iif", 3)
    first, second = (lowering.expression(argument, scope) for argument in arguments[1:])
    kind = lowering.unify([first, second])
    test = lowering.condition(arguments[0], scope)
    sql = f"CASE WHEN {test} THEN {lowering.represented(first, kind).sql} ELSE {lowering.represented(second, kind).sql} END"
    return lowering.labelled(Expr(sql, kind, first.nullable or second.nullable), [first, second], "CASE")


def _trying(run: Call) -> Call:
    def call(value: Value) -> Value:
        try:
            return run(value)
        except SqlError:
            return None

    return call


Special = Callable[[OperandLowering, str, Sequence[exp.Expr], Scope], Expr]
SPECIAL: dict[str, Special] = {
    "CAST": _cast_call,
    "CONVERT": _cast_call,
    "TRY_CAST": _cast_call,
    "TRY_CONVERT": _cast_call,
    "ISNULL": _isnull,
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    "IIF": _iif,
    "CHOOSE": logical_functions.choose,
    "GREATEST": logical_functions.extreme,
    "LEAST": logical_functions.extreme,
    **dict.fromkeys(logical_functions.PROPERTIES, logical_functions.variant),
}
