"""Lowers aggregates and window functions. What an aggregate of Python adds up is in calls.py."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions import string_aggregate
from emulators.sqlserver.tsql.planning.expressions import AGGREGATES
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.relations import Relations
from emulators.sqlserver.tsql.planning.scopes import Output, Scope
from emulators.sqlserver.tsql.reading.trees import spelled
from emulators.sqlserver.tsql.values import arithmetic
from emulators.sqlserver.tsql.values.calls import Call, checked_whole
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import BIGINT, FLOAT, INT, RANGES, family, summed

_WINDOW_FUNCTIONS = {
    "ROW_NUMBER": (0, 0),
    "RANK": (0, 0),
    "DENSE_RANK": (0, 0),
    "PERCENT_RANK": (0, 0),
    "CUME_DIST": (0, 0),
    "NTILE": (1, 1),
    "LAG": (1, 3),
    "LEAD": (1, 3),
    "FIRST_VALUE": (1, 1),
    "LAST_VALUE": (1, 1),
}
"""Functions that stand with OVER alone: the least and most number of their arguments."""
_FRACTIONS = ("PERCENT_RANK", "CUME_DIST")


class Aggregates(Relations):
    """Adds aggregates and windows."""

    over = ""
    """The OVER clause behind the aggregates that are lowered at the moment."""

    # Implemented where whole queries are lowered.
    def order(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> str:
        raise NotImplementedError

    def collated(self, expr: Expr) -> str:
        order = self.ordered(expr, "an ordered or grouped expression")
        return f"{expr.sql} COLLATE {order}" if order else expr.sql

    def aggregate(self, node: exp.Anonymous, name: str, scope: Scope) -> Expr:
        if name == "STRING_AGG":
            return self._joined(node, None, scope)
        arguments = list(node.expressions)
        if len(arguments) != 1:
            raise errors.argument_count(name.lower(), 1)
        if self.no_aggregate in (147, 1015) and scope.within():
            raise errors.unsupported("an aggregate of the query around a subquery, or a misplaced one of its own")
        if self.no_aggregate:
            raise errors.misplaced_aggregate(self.no_aggregate)
        argument, distinct, over = arguments[0], "", self.over
        grouped, self.grouped = (self.grouped, self.grouped) if over else (self.grouped, None)
        self.over, self.no_aggregate = "", 0 if over else 130
        try:
            if isinstance(argument, exp.Distinct):
                argument, distinct = argument.expressions[0], "DISTINCT "
            if isinstance(argument, exp.Star):
                if not name.startswith("COUNT"):
                    raise errors.syntax("*")
                return Expr(f"count(*){over}", INT if name == "COUNT" else BIGINT, False)
            value = self.expression(argument, scope)
        finally:
            self.grouped, self.over, self.no_aggregate = grouped, over, 0
        return self._aggregated(name, distinct, value)

    def group(self, group: exp.Expr, scope: Scope) -> str:
        """The SQL of a GROUP BY list. Raises 144, 164, 50001."""
        if any(value for part, value in group.args.items() if part != "expressions") or any(
            isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets) for item in group.expressions
        ):
            raise errors.unsupported("ROLLUP, CUBE and GROUPING SETS")
        if any(isinstance(item, exp.Literal) for item in group.expressions):
            text = "Each GROUP BY expression must contain at least one column that is not an outer reference."
            raise SqlError(164, text, 15)
        self.no_aggregate = 144
        found = ", ".join(self.collated(self.expression(item, scope)) for item in group.expressions)
        self.no_aggregate = 0
        return found

    def within_group(self, node: exp.WithinGroup, scope: Scope) -> Expr:
        call = node.this
        if not isinstance(call, exp.Anonymous) or call.name.upper() != "STRING_AGG":
            raise errors.unsupported(f"WITHIN GROUP of {call.sql(dialect='tsql')}")
        return self._joined(call, node.expression, scope)

    def _joined(self, node: exp.Anonymous, order: exp.Expr | None, scope: Scope) -> Expr:
        """STRING_AGG. Raises 174, 8116, 8733."""
        if any(isinstance(argument, exp.Distinct) for argument in node.expressions):
            raise errors.syntax(",")
        if len(node.expressions) != 2:
            raise errors.argument_count("STRING_AGG", 2)
        if node.expressions[1].find(exp.Column, exp.Subquery) is not None:
            raise SqlError(8733, "Separator parameter for STRING_AGG must be a string literal or variable.", 16)
        items = order.expressions if order is not None else []
        if any(isinstance(item.this, exp.Literal) for item in items):
            raise errors.unsupported("a constant in the order of STRING_AGG")
        grouped, self.grouped = self.grouped, None
        try:
            value, between = (self.expression(argument, scope) for argument in node.expressions)
            keys = [self.expression(item.this, scope) for item in items]
        finally:
            self.grouped = grouped
        if family(between.type) != "string" and not between.is_null:
            text = f"Argument data type {between.type.name} is invalid for argument 2 of string_agg function."
            raise SqlError(8116, text, 16)
        kind = string_aggregate.joined_type(value.type)
        shown = self.cast(value, kind)
        put = self.call(("string_agg separator",), lambda: string_aggregate.separator, [self.cast(between, kind)], kind)
        terms = [
            ("D" if item.args.get("desc") else "A") + self.ordered(key, "an ordered or grouped expression")
            for item, key in zip(items, keys, strict=True)
        ]
        listed = ", ".join([f"'{','.join(terms)}'", shown.sql, put.sql, *(key.sql for key in keys)])
        joined = Expr(f"string_joined({listed})", kind)
        found = self.call(("string_agg", kind), lambda: string_aggregate.limited(kind), [joined], kind)
        return self.labelled(found, [shown], "string_agg")

    def _aggregated(self, name: str, distinct: str, value: Expr) -> Expr:
        shown = distinct + self.collated(value)
        if name.startswith("COUNT"):
            return Expr(f"count({shown}){self.over}", INT if name == "COUNT" else BIGINT, False)
        if name in ("MIN", "MAX"):
            if value.type.name == "bit":
                raise errors.invalid_operator("bit", name.lower())
            return self.labelled(Expr(f"{name.lower()}({shown}){self.over}", value.type), [value], name.lower())
        group = family(value.type)
        if group not in ("int", "exact", "float") or value.type.name == "bit":
            raise errors.invalid_operator(value.type.name, name.lower())
        kind = summed(value.type, name == "AVG")
        if group == "float":
            return Expr(f"{'sum' if name == 'SUM' else 'avg'}({shown}){self.over}", kind)
        total = Expr(f"{'whole_sum' if group == 'int' else 'exact_sum'}({shown}){self.over}", kind)
        if name == "AVG":
            return self._average(total, Expr(f"count({shown}){self.over}", INT), kind)
        if group == "exact":
            return self.call(("sum", kind), lambda: self._exact_check(kind), [total], kind)
        return self.call(("sum", kind), lambda: checked_whole(kind.name, *RANGES[kind.name]), [total], kind)

    def _exact_check(self, kind: SqlType) -> Call:
        return converter(SqlType("numeric", None, 38, kind.scale if kind.scale is not None else 4), kind)

    def _average(self, total: Expr, count: Expr, kind: SqlType) -> Expr:
        make = arithmetic.whole if family(kind) == "int" else arithmetic.exact

        def divided() -> Call:
            run = make("/", kind)
            return lambda a, b: None if a is None else run(a, b)

        return self.call(("average", kind), divided, [total, count], kind)

    def window(self, node: exp.Window, scope: Scope) -> Expr:
        if self.no_aggregate:
            raise errors.misplaced_window(within=self.no_aggregate == 130)
        call = node.this
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        if name not in _WINDOW_FUNCTIONS and name not in AGGREGATES:
            inner = call.this if isinstance(call, exp.WithinGroup) else None
            named = f"{inner.name.upper()} ... WITHIN GROUP" if isinstance(inner, exp.Anonymous) else spelled(call)
            raise errors.unsupported(f"window function {name or named}")
        if name in _WINDOW_FUNCTIONS and node.args.get("order") is None:
            raise SqlError(4112, f"The function '{name}' must have an OVER clause with ORDER BY.", 15)
        over = f" OVER ({' '.join(self._over(node, scope))})"
        if name == "STRING_AGG":
            text = (
                "The function 'STRING_AGG' is not a valid windowing function, and cannot be used with the OVER clause."
            )
            raise SqlError(4113, text, 15)
        if name in AGGREGATES:
            if any(isinstance(argument, exp.Distinct) for argument in call.expressions):
                raise SqlError(10759, "Use of DISTINCT is not allowed with the OVER clause.", 15)
            before, self.over = self.over, over
            try:
                return self.aggregate(call, name, scope)
            finally:
                self.over = before
        values = [self.expression(argument, scope) for argument in call.expressions]
        least, most = _WINDOW_FUNCTIONS[name]
        if not least <= len(values) <= most:
            raise errors.argument_count(name.lower(), least)
        kind = values[0].type if least and name != "NTILE" else FLOAT if name in _FRACTIONS else BIGINT
        if len(values) == 3:
            values[2] = self.represented(values[2], kind)
        found = Expr(f"{name.lower()}({', '.join(value.sql for value in values)}){over}", kind, bool(least))
        return self.labelled(found, values, name.lower())

    def _over(self, node: exp.Window, scope: Scope) -> list[str]:
        parts = []
        if node.args.get("partition_by"):
            listed = ", ".join(self.collated(self.expression(p, scope)) for p in node.args["partition_by"])
            parts.append(f"PARTITION BY {listed}")
        if node.args.get("order") is not None:
            parts.append(self.order(node, scope, ()).strip())
        spec = node.args.get("spec")
        if spec is not None:
            parts.append(_frame(spec))
        return parts


def _frame(spec: exp.Expr) -> str:
    """ROWS or RANGE as SQLite writes it; RANGE knows no distances in T-SQL."""
    kind = str(spec.args.get("kind") or "").upper()
    ends = []
    for which in ("start", "end"):
        value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "")
        shown = value.name if isinstance(value, exp.Literal) else str(value) if value is not None else "CURRENT ROW"
        if isinstance(value, exp.Literal) and kind == "RANGE":
            raise SqlError(4194, "RANGE is only supported with UNBOUNDED and CURRENT ROW window frame delimiters.", 16)
        if shown not in ("UNBOUNDED", "CURRENT ROW") and not shown.isdigit():
            raise errors.unsupported(f"window frame {shown}")
        ends.append(f"{shown} {side}".strip())
    return f"{kind} BETWEEN {ends[0]} AND {ends[1]}"


def refuse_constants(order: Sequence[exp.Expr]) -> None:
    """Of the terms of ORDER BY whole numbers are positions. Raises 408 for other constants."""
    for position, item in enumerate(order, 1):
        node = item.this
        text = isinstance(node, exp.National) or (isinstance(node, exp.Literal) and not node.name.isdigit())
        if text or (isinstance(node, exp.Literal) and node.is_string) or _is_negative(node):
            said = f"A constant expression was encountered in the ORDER BY list, position {position}."
            raise SqlError(408, said, 15)


def _is_negative(node: exp.Expr) -> bool:
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)


def aggregated(node: exp.Select) -> bool:
    """Whether an aggregate stands in the select list, HAVING or ORDER BY, not in a subquery or a window."""
    pending: list[exp.Expr] = [*node.expressions]
    for part in ("having", "order"):
        if node.args.get(part) is not None:
            pending.append(node.args[part])
    while pending:
        item = pending.pop()
        if isinstance(item, exp.Subquery | exp.Select | exp.Window | exp.Exists):
            continue
        if isinstance(item, exp.Anonymous) and str(item.name).upper() in AGGREGATES:
            return True
        pending += list(item.iter_expressions())
    return False
