"""Lowers CROSS APPLY and OUTER APPLY, which SQLite lacks: the right side's rows travel through json_each, whose argument may be
correlated. Bytes go as hexadecimal digits and floats as their shortest text, since JSON would change them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlglot import exp

from emulators.sqlserver.results import Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning.aggregates import Aggregates
from emulators.sqlserver.tsql.planning.relations import with_names
from emulators.sqlserver.tsql.planning.scopes import Output, Relation, Scope
from emulators.sqlserver.tsql.reading.trees import spelled
from emulators.sqlserver.tsql.values.calls import register
from emulators.sqlserver.tsql.values.types import family

APPLIED = "applied:"
"""How the key of a session call says that it wants a table function's rows as JSON."""


def packed(rows: Iterable[Sequence[Value]]) -> str:
    """Rows in the form that an APPLY reads."""
    return json.dumps([[_cell(value) for value in row] for row in rows])


def _cell(value: Value) -> int | str | None:
    return value.hex() if isinstance(value, bytes) else repr(value) if isinstance(value, float) else value


class Applying(Aggregates):
    """Adds APPLY."""

    def apply(self, node: exp.Lateral, scope: Scope) -> str:
        alias = node.args.get("alias")
        if isinstance(node.this, exp.Subquery):
            argument, outputs = self._rows_of(node.this.this, scope)
        else:
            argument, outputs = self._function_rows(node.this, scope)
        shown = alias.name if alias is not None and alias.this is not None else _function_name(node.this)
        if not shown:
            raise errors.syntax(")")
        name = self.next_name()
        read = [
            Output(o.name, o.expr.read_as(_unpacked(f"json_extract({name}.value, '$[{i}]')", o.expr.type), True))
            for i, o in enumerate(with_names(outputs, alias) if alias is not None else outputs)
        ]
        scope.relations.append(Relation(shown, name, read))
        return f" {'JOIN' if node.args.get('cross_apply') else 'LEFT JOIN'} json_each({argument}) AS {name}"

    def _rows_of(self, node: exp.Expr, scope: Scope) -> tuple[str, Sequence[Output]]:
        lowered = self.constructed(node, Scope(scope)) if isinstance(node, exp.Values) else self.query(node, scope)
        cells = ", ".join(_packed(f"c{i}", o.expr.type) for i, o in enumerate(lowered.outputs))
        return f"(SELECT json_group_array(json_array({cells})) FROM ({lowered.sql}))", lowered.outputs

    def _function_rows(self, node: exp.Expr, scope: Scope) -> tuple[str, Sequence[Output]]:
        call = node.expression if isinstance(node, exp.Dot) else node
        if not isinstance(call, exp.Anonymous):
            raise errors.unsupported(f"APPLY of {spelled(node)}")
        parts = tuple(part.name for part in node.find_all(exp.Identifier) if part.find_ancestor(exp.Anonymous) is None)
        name = (*reversed(parts), call.name) if isinstance(node, exp.Dot) else (call.name,)
        source = self.names.table_function(name, len(call.expressions))
        if source is None:
            raise errors.invalid_object(".".join(name))
        key = f"{APPLIED}{source.database}|{source.schema}.{source.name}".replace("'", "''")
        listed = "".join(f", {self.expression(argument, scope).sql}" for argument in call.expressions)
        outputs = [Output(column.name, self.column("", column)) for column in source.columns]
        return f"sfn('{key}'{listed})", outputs


def _function_name(node: exp.Expr) -> str:
    """By which a function without an alias is known; a subquery has none."""
    call = node.expression if isinstance(node, exp.Dot) else node
    return call.name if isinstance(call, exp.Anonymous) else ""


def _packed(sql: str, kind: SqlType) -> str:
    if family(kind) == "binary":
        return f"CASE WHEN {sql} IS NOT NULL THEN hex({sql}) END"
    if family(kind) == "float":
        return f"fn({register(('shortest',), lambda: _shortest)}, {sql})"
    return sql


def _unpacked(sql: str, kind: SqlType) -> str:
    if family(kind) == "binary":
        return f"fn({register(('unhex',), lambda: _unhex)}, {sql})"
    return f"CAST({sql} AS REAL)" if family(kind) == "float" else sql


def _shortest(value: Value) -> Value:
    return None if value is None else repr(float(str(value)))


def _unhex(value: Value) -> Value:
    return None if value is None else bytes.fromhex(str(value))
