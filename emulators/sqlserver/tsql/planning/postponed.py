"""Which functions over columns in a select list wait until a row is sent: SQLite calls Python at ten times the cost of a call in Python.

Only where nothing else of the statement reads them: no grouping, and no ORDER BY by a name or number of the list. Refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.tsql.planning.aggregates import aggregated
from emulators.sqlserver.tsql.planning.scopes import Output
from emulators.sqlserver.tsql.values.calls import CALLS, Call

_COLUMN = re.compile(r's\d+\.(?:"(?:[^"]|"")*"|c\d+)')
_OF_ONE = re.compile(r"fn\((\d+), (.*)\)", re.DOTALL)


def allowed(node: exp.Select) -> bool:
    """Whether nothing in `node` reads the items of its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None or aggregated(node):
        return False
    order = node.args.get("order")
    terms = [item.this for item in order.expressions] if order is not None else []
    return all(isinstance(term, exp.Column) and len(term.parts) > 1 for term in terms)


def taken_off(items: Sequence[Output]) -> tuple[list[Output], tuple[Sequence[Call], ...]]:
    """The items without the functions around columns, and of each those functions, the inner one first."""
    left, later = [], []
    for item in items:
        sql, calls = _taken_off(item.expr.sql)
        left.append(replace(item, expr=replace(item.expr, sql=sql)) if calls else item)
        later.append(calls)
    return left, tuple(later) if any(later) else ()


def _taken_off(sql: str) -> tuple[str, Sequence[Call]]:
    inner = sql
    calls: list[Call] = []
    while (found := _OF_ONE.fullmatch(inner)) is not None:
        calls.insert(0, CALLS[int(found[1])])
        inner = found[2]
    return (inner, calls) if _COLUMN.fullmatch(inner) else (sql, [])
