"""Functions that are lowered by themselves, because their result's type follows from the values of their arguments or because
they do not look at all of them: CHOOSE, GREATEST, LEAST, and the properties that are sql_variant.

sql_variant itself is not supported: a property has the type that its value would have inside one, when its name is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions.collations import COLLATIONS
from emulators.sqlserver.tsql.functions.session_functions import VARIANTS
from emulators.sqlserver.tsql.planning.function_calls import session_call
from emulators.sqlserver.tsql.planning.operand_lowering import OperandLowering
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.precedence import settled
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.values.types import INT, SYSNAME, collated, collation

PROPERTIES = tuple(VARIANTS)


def choose(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    """https://learn.microsoft.com/sql/t-sql/functions/logical-functions-choose-transact-sql"""
    if len(arguments) < 2:
        raise errors.argument_count("choose", 2)
    index = lowering.cast(lowering.expression(arguments[0], scope), INT)
    values = [lowering.expression(argument, scope) for argument in arguments[1:]]
    kind = lowering.unify(values)
    branches = " ".join(f"WHEN {n} THEN {lowering.represented(v, kind).sql}" for n, v in enumerate(values, 1))
    return lowering.labelled(Expr(f"CASE {index.sql} {branches} END", kind), values, "CASE")


def extreme(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    """GREATEST and LEAST pass over NULL: https://learn.microsoft.com/sql/t-sql/functions/logical-functions-greatest-transact-sql"""
    if not 1 <= len(arguments) <= 254:
        raise errors.argument_count(name.lower(), 1)
    values = [lowering.expression(argument, scope) for argument in arguments]
    label = lowering.together(values, name)
    kind = collated(lowering.unify(values), settled(label, name))
    same = [lowering.represented(value, kind) for value in values]
    found = lowering.call((name, kind, len(same)), lambda: _extreme(kind, name == "GREATEST"), same, kind)
    return lowering.labelled(found, values, name)


def _extreme(kind: SqlType, greatest: bool) -> Callable[..., Value]:
    compare: Callable[..., int] = COLLATIONS.get(collation(kind), lambda a, b: (a > b) - (a < b))
    sign = 1 if greatest else -1

    def run(*values: Value) -> Value:
        best: Value = None
        for value in values:
            if value is not None and (best is None or sign * compare(value, best) > 0):
                best = value
        return best

    return run


def variant(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    """SERVERPROPERTY and the like: the base type by the property that the last argument names."""
    values = [lowering.expression(argument, scope) for argument in arguments]
    call = session_call(name, values)
    last = values[-1].constant if values else None
    kind = VARIANTS[name].get(str(last).lower(), SYSNAME) if isinstance(last, str) else SYSNAME
    return Expr(call.sql, kind)
