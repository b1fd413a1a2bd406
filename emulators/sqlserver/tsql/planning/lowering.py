"""From the text of a query, or of the rows that an UPDATE or DELETE touches, to a plan for SQLite."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from emulators.sqlserver.results import Column
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning import hinted
from emulators.sqlserver.tsql.planning.plans import ELSEWHERE, Expr, Names, Plan, Source
from emulators.sqlserver.tsql.planning.queries import Queries
from emulators.sqlserver.tsql.planning.scopes import Output, Relation, Scope
from emulators.sqlserver.tsql.reading.fragments import LIFTED, Fragment
from emulators.sqlserver.tsql.reading.trees import parse_query
from emulators.sqlserver.tsql.values.text_order import Fold
from emulators.sqlserver.tsql.values.types import is_unicode

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PARAMETER = re.compile(r"\?(\d+)")


class Elsewhere(Exception):
    """The rows to be changed are stored in `database`: lower the statement again for that one."""

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self.database = database


def _types(fragment: Fragment, variables: Mapping[str, SqlType]) -> dict[str, SqlType]:
    known = {name: variables[name] for name in fragment.variables if name in variables}
    for index, (kind, _) in enumerate(fragment.lifted):
        known[f"{LIFTED}{index}"] = kind
    return known


def lower_query(fragment: Fragment, names: Names, variables: Mapping[str, SqlType], *, sent: bool = False) -> Plan:
    """A query for SQLite. Raises SqlError for what is wrong with it or not supported.

    `sent`: its rows go to a client as they are, so that conversions of columns may be left for then (`Plan.later`).
    """
    lowering = Queries(names, _types(fragment, variables))
    lowering.sent = sent
    lowered = lowering.query(parse_query(fragment.text), Scope())
    plan = _plan(lowering, lowered.sql, _columns(lowering, lowered.outputs))
    return replace(plan, later=lowering.later)


def _columns(lowering: Queries, outputs: Sequence[Output], assigned: bool = False) -> tuple[Column, ...]:
    """`assigned`: to columns, which have collations of their own."""
    columns = []
    for number, output in enumerate(outputs, 1):
        if not assigned or not is_unicode(output.expr.type):
            lowering.check_resolved(output.expr, f"SELECT statement column {number}")
        kind = lowering.typed(output.expr)
        columns.append(Column(output.name, kind, output.expr.nullable, output.expr.identity))
    return tuple(columns)


def _plan(lowering: Queries, sql: str, columns: tuple[Column, ...]) -> Plan:
    # An operand beside NULL is lowered and left out: SQLite wants no more parameters than the highest that is mentioned.
    used = max((int(number) for number in _PARAMETER.findall(_QUOTED.sub("", sql))), default=0)
    parameters = tuple(lowering.parameters[:used])
    return Plan(
        sql,
        columns,
        parameters,
        tuple(lowering.virtuals),
        frozenset(lowering.databases),
        hinted.reads(lowering.hinted),
        hinted.keeps(lowering.hinted),
        hinted.nowait(lowering.hinted),
    )


def lower_rows(
    fragment: Fragment, target: Sequence[str], has_from: bool, names: Names, variables: Mapping[str, SqlType]
) -> tuple[Plan, Source]:
    """The rows that an UPDATE or DELETE touches: rowid, every column of the target, then the fragment's own items."""
    lowering = Queries(names, _types(fragment, variables))
    lowering.numbered = True
    node = parse_query(fragment.text)
    if not isinstance(node, exp.Select):
        raise errors.syntax("FROM")
    scope, (prefix, source) = lowering.opened(node, None)
    if lowering.grouped is not None or node.args.get("distinct"):
        raise errors.misplaced_aggregate(157)
    relation = _target(scope, target, names.fold) if has_from else scope.relations[0]
    if relation is None or relation.source is None or not (relation.source.storage or relation.base):
        if relation is not None and relation.source is not None and relation.source.view.startswith(ELSEWHERE):
            raise Elsewhere(relation.source.database)
        if relation is not None and relation.source is None:
            raise errors.unsupported("a change of rows through a view or a derived table")
        found = names.source(tuple(target))
        if found is None or not has_from:
            raise errors.invalid_object(".".join(target))
        raise errors.unsupported("an UPDATE or DELETE whose target is not in its FROM")
    items = lowering.items(node, scope)
    row = _row(relation, relation.source)
    sql = f"{prefix}SELECT {', '.join([*row, *(o.expr.sql for o in items)])}{source}{lowering.limit(node, scope)}"
    columns = tuple(Column(c.name, c.type) for c in _columns(lowering, items, True))
    return _plan(lowering, sql, columns), relation.source


@dataclass(frozen=True, slots=True)
class OutputShape:
    """The rows that OUTPUT reads, as stored in temp.out_<width>: the table's columns as inserted, as deleted, $action, then
    `outside`, the columns (qualifier, name, type) of other tables."""

    columns: tuple[Column, ...]
    computed: tuple[tuple[int, Fragment], ...]
    inserted: bool
    deleted: bool
    action: bool
    outside: tuple[tuple[str, str, SqlType], ...] = ()

    @property
    def width(self) -> int:
        return 2 * len(self.columns) + 1 + len(self.outside)


def lower_output(fragment: Fragment, shape: OutputShape, names: Names, variables: Mapping[str, SqlType]) -> Plan:
    lowering = Queries(names, _types(fragment, variables))
    node = parse_query(fragment.text)
    scope = Scope()
    size = len(shape.columns)
    for name, first, present in (("inserted", 0, shape.inserted), ("deleted", size, shape.deleted)):
        outputs = [Output(c.name, lowering.column(f"s1.c{first + i}", c)) for i, c in enumerate(shape.columns)]
        if present:
            scope.relations.append(lowering.computed(Relation(name, "s1", outputs), shape.computed))
    if shape.action:
        action = Output("$action", Expr(f"s1.c{2 * size}", SqlType("nvarchar", 10)))
        scope.relations.append(Relation("$", "s1", [action]))
    for index, (qualifier, name, kind) in enumerate(shape.outside, 2 * size + 1):
        outputs = [Output(name, lowering.column(f"s1.c{index}", Column(name, kind)))]
        scope.relations.append(Relation(qualifier, "s1", outputs))
    assert isinstance(node, exp.Select)
    items = lowering.items(node, scope)
    sql = f"SELECT {', '.join(o.expr.sql for o in items)} FROM temp.out_{shape.width} AS s1 ORDER BY s1.rowid"
    columns = tuple(Column(c.name, c.type, c.nullable) for c in _columns(lowering, items))
    return _plan(lowering, sql, columns)


def lower_over_row(fragment: Fragment, table: Source, names: Names, row: str = "s1.") -> Expr:
    """The one item of `fragment` over a row of `table`, which SQLite knows as s1: for CHECK constraints and computed columns.

    `row`: what stands before columns; "" where SQLite allows no name, in a filtered index.
    """
    lowering = Queries(names, {})
    outputs = [
        Output(c.name, lowering.column(f'{row}"{c.name.replace(chr(34), chr(34) * 2)}"', c)) for c in table.columns
    ]
    scope = Scope(None, [lowering.computed(Relation(table.name, "s1", outputs, table), table.computed)])
    value = lowering.expression(parse_query(fragment.text).expressions[0], scope)
    value = replace(value, type=lowering.typed(value))
    if lowering.parameters or lowering.virtuals:
        raise errors.unsupported("this expression in a table's definition")
    return value


def _row(relation: Relation, source: Source) -> list[str]:
    """The row's number and all of its columns, as stored; through a common table expression by its number."""
    names = [f'"{column.name.replace(chr(34), chr(34) * 2)}"' for column in source.columns]
    if not relation.base:
        return [f"{relation.sql}.{source.rowid}", *(f"{relation.sql}.{name}" for name in names)]
    number = f"{relation.sql}.{relation.base}"
    return [number, *(f"(SELECT {name} FROM {source.storage} WHERE {source.rowid} = {number})" for name in names)]


def _target(scope: Scope, target: Sequence[str], fold: Fold) -> Relation | None:
    """By alias first, then by the table's name."""
    for relation in scope.relations:
        if len(target) == 1 and fold(relation.alias) == fold(target[0]):
            return relation
    wanted = [fold(part) or "dbo" for part in target]
    if len(wanted) == 3:
        wanted[0] = target[0].lower()
    for relation in scope.relations:
        if relation.source is not None:
            source = relation.source
            full = [source.database.lower(), fold(source.schema), fold(source.name)]
            if full[-len(wanted) :] == wanted:
                return relation
    return None
