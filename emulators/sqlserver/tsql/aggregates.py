"""Lowers aggregates and window functions. What an aggregate of Python adds up is in calls.py."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import arithmetic, errors
from emulators.sqlserver.tsql.calls import Call, checked_whole
from emulators.sqlserver.tsql.convert import converter
from emulators.sqlserver.tsql.expressions import AGGREGATES
from emulators.sqlserver.tsql.plans import Expr
from emulators.sqlserver.tsql.relations import Relations
from emulators.sqlserver.tsql.scopes import Output, Scope
from emulators.sqlserver.tsql.types import BIGINT, INT, RANGES, collation, family, summed


class Aggregates(Relations):
    """Adds aggregates and windows."""

    # Implemented where whole queries are lowered.
    def order(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> str:
        raise NotImplementedError

    def collated(self, expr: Expr) -> str:
        return f"{expr.sql} COLLATE {collation(expr.type)}" if collation(expr.type) else expr.sql

    def aggregate(self, node: exp.Anonymous, name: str, scope: Scope) -> Expr:
        arguments = list(node.expressions)
        if len(arguments) != 1:
            raise errors.argument_count(name.lower(), 1)
        argument, distinct = arguments[0], ""
        grouped, self.grouped = self.grouped, None
        try:
            if isinstance(argument, exp.Distinct):
                argument, distinct = argument.expressions[0], "DISTINCT "
            if isinstance(argument, exp.Star):
                if not name.startswith("COUNT"):
                    raise errors.syntax("*")
                return Expr("count(*)", INT if name == "COUNT" else BIGINT, False)
            value = self.expression(argument, scope)
        finally:
            self.grouped = grouped
        return self._aggregated(name, distinct, value)

    def _aggregated(self, name: str, distinct: str, value: Expr) -> Expr:
        shown = distinct + self.collated(value)
        if name.startswith("COUNT"):
            return Expr(f"count({shown})", INT if name == "COUNT" else BIGINT, False)
        if name in ("MIN", "MAX"):
            if value.type.name == "bit":
                raise errors.invalid_operator("bit", name.lower())
            return Expr(f"{name.lower()}({shown})", value.type)
        group = family(value.type)
        if group not in ("int", "exact", "float") or value.type.name == "bit":
            raise errors.invalid_operator(value.type.name, name.lower())
        kind = summed(value.type, name == "AVG")
        if group == "float":
            return Expr(f"{'sum' if name == 'SUM' else 'avg'}({shown})", kind)
        total = Expr(f"{'whole_sum' if group == 'int' else 'exact_sum'}({shown})", kind)
        if name == "AVG":
            return self._average(total, Expr(f"count({shown})", INT), kind)
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
        call = node.this
        name = call.name.upper() if isinstance(call, exp.Anonymous) else ""
        if node.args.get("spec") or name not in (
            "ROW_NUMBER",
            "RANK",
            "DENSE_RANK",
            "COUNT",
            "COUNT_BIG",
            "MIN",
            "MAX",
        ):
            raise errors.unsupported(f"window function {name or type(call).__name__}")
        value = (
            Expr(f"{name.lower()}()", BIGINT, False)
            if name.endswith(("NUMBER", "RANK"))
            else self.aggregate(call, name, scope)
        )
        parts = []
        if node.args.get("partition_by"):
            parts.append(
                "PARTITION BY " + ", ".join(self.collated(self.expression(p, scope)) for p in node.args["partition_by"])
            )
        if node.args.get("order") is not None:
            parts.append(self.order(node, scope, ()).strip())
        return Expr(f"{value.sql} OVER ({' '.join(parts)})", value.type, value.nullable)


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
