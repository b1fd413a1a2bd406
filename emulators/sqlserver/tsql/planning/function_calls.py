"""Lowers calls of functions whose arguments are plain values: the built-in ones, those of the session, and an extension's.

A call of a built-in function runs in Python, made once for each combination of types. Which names are calls of another kind
(special_calls.py, aggregates.py) is decided in expressions.py. Refuses functions that it does not know, by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions import date_functions
from emulators.sqlserver.tsql.functions.function_table import BUILTINS, REFUSED, refused
from emulators.sqlserver.tsql.functions.session_functions import SESSION_FUNCTIONS, WITHOUT_PARENTHESES
from emulators.sqlserver.tsql.planning.constants import quoted
from emulators.sqlserver.tsql.planning.operand_lowering import OperandLowering
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.precedence import settled
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.reading.trees import described
from emulators.sqlserver.tsql.values.calls import strict
from emulators.sqlserver.tsql.values.types import collated

_WINDOWED = frozenset(
    (
        *("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE"),
        *("CUME_DIST", "PERCENT_RANK", "PERCENTILE_CONT", "PERCENTILE_DISC"),
    )
)


def is_word(node: exp.Expr) -> bool:
    """Whether what looks like a column is a function that has no parentheses, as CURRENT_USER."""
    assert isinstance(node, exp.Column)
    return len(node.parts) == 1 and not node.this.args.get("quoted") and node.name.upper() in WITHOUT_PARENTHESES


def check_known(name: str) -> None:
    """Ahead of its arguments, which may have a form of their own. Raises 195, 10753, 50001."""
    if name in REFUSED:
        raise refused(name)
    if name in _WINDOWED:
        raise SqlError(10753, f"The function '{name}' must have an OVER clause.", 15)
    if name not in BUILTINS and name not in SESSION_FUNCTIONS:
        raise errors.unknown_function(name)


def builtin(lowering: OperandLowering, name: str, values: Sequence[Expr]) -> Expr:
    found = BUILTINS[name]
    if len(values) < found.least or (found.most >= 0 and len(values) > found.most):
        raise errors.argument_count(name.lower(), found.least)
    label = lowering.together(values, name.lower())
    if not name.startswith("CONCAT"):
        settled(label, name.lower())
    types = tuple(collated(value.type, label.name) for value in values)
    if name == "CHAR":  # its number is a byte of the database's code page
        types = (replace(types[0], collation=label.name),)
    kind, run = found.make(types)
    if not found.nulls:
        run = strict(run)
    return lowering.labelled(lowering.call((name, types), lambda: run, values, kind), values, name.lower())


def session_call(name: str, values: Sequence[Expr]) -> Expr:
    least, most, kind = SESSION_FUNCTIONS[name]
    if not least <= len(values) <= most:
        raise errors.argument_count(name.lower(), least)
    listed = "".join(f", {value.sql}" for value in values)
    return Expr(f"sfn('{name}'{listed})", kind)


def part_call(lowering: OperandLowering, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
    if len(arguments) != date_functions.PART_FUNCTIONS[name] + 1:
        raise errors.argument_count(name.lower(), date_functions.PART_FUNCTIONS[name] + 1)
    word = arguments[0]
    if not isinstance(word, exp.Column) or len(word.parts) != 1:
        raise SqlError(1023, f"Invalid parameter 1 specified for {name.lower()}.", 15)
    values = [lowering.expression(argument, scope) for argument in arguments[1:]]
    types = tuple(value.type for value in values)
    kind, run = date_functions.part_call(name, word.name, types)
    return lowering.call((name, word.name.lower(), types), lambda: strict(run), values, kind)


def method(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    """schema.function(...): a function of the session's extension."""
    parts = _dotted(node)
    call = node.expression
    if parts is None or not isinstance(call, exp.Anonymous):
        raise errors.unsupported(described(node))
    values = [lowering.expression(argument, scope) for argument in call.expressions]
    name = (*parts, call.name)
    found = lowering.names.scalar_function(name, len(values))
    if found is None:
        text = (
            f'Cannot find either column "{parts[0]}" or the user-defined function or aggregate "{".".join(name)}", '
            "or the name is ambiguous."
        )
        raise SqlError(4121, text, 16)
    key, kind = found
    listed = "".join(f", {value.sql}" for value in values)
    return Expr(f"sfn({quoted(key)}{listed})", kind)


def at_time_zone(lowering: OperandLowering, node: exp.Expr, scope: Scope) -> Expr:
    value = lowering.expression(node.this, scope)
    zone = lowering.expression(node.args["zone"], scope)
    kind, run = date_functions.at_time_zone(value.type)
    return lowering.call(("zone", value.type), lambda: strict(run), [value, zone], kind)


def _dotted(node: exp.Expr) -> tuple[str, ...] | None:
    left = node.this
    if isinstance(left, exp.Identifier):
        return (left.name,)
    if isinstance(left, exp.Dot):
        inner = _dotted(left)
        return (*inner, left.expression.name) if inner else None
    if isinstance(left, exp.Column):
        return tuple(part.name for part in left.parts)
    return None
