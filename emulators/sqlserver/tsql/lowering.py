"""From the text of a query, or of the rows that an UPDATE or DELETE touches, to a plan for SQLite."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from emulators.sqlserver.results import Column
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.fragments import LIFTED, Fragment
from emulators.sqlserver.tsql.plans import Names, Plan, Source
from emulators.sqlserver.tsql.queries import Queries
from emulators.sqlserver.tsql.scopes import Relation, Scope
from emulators.sqlserver.tsql.trees import parse_query

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PARAMETER = re.compile(r"\?(\d+)")


def _types(fragment: Fragment, variables: Mapping[str, SqlType]) -> dict[str, SqlType]:
    known = {name: variables[name] for name in fragment.variables if name in variables}
    for index, (kind, _) in enumerate(fragment.lifted):
        known[f"{LIFTED}{index}"] = kind
    return known


def lower_query(fragment: Fragment, names: Names, variables: Mapping[str, SqlType]) -> Plan:
    """A query for SQLite. Raises SqlError for what is wrong with it or not supported."""
    lowering = Queries(names, _types(fragment, variables))
    lowered = lowering.query(parse_query(fragment.text), Scope())
    columns = tuple(Column(o.name, o.expr.type, o.expr.nullable, o.expr.identity) for o in lowered.outputs)
    return _plan(lowering, lowered.sql, columns)


def _plan(lowering: Queries, sql: str, columns: tuple[Column, ...]) -> Plan:
    # An operand beside NULL is lowered and left out: SQLite wants no more parameters than the highest that is mentioned.
    used = max((int(number) for number in _PARAMETER.findall(_QUOTED.sub("", sql))), default=0)
    parameters = tuple(lowering.parameters[:used])
    return Plan(sql, columns, parameters, tuple(lowering.virtuals), frozenset(lowering.databases))


def lower_rows(
    fragment: Fragment, target: Sequence[str], has_from: bool, names: Names, variables: Mapping[str, SqlType]
) -> tuple[Plan, Source]:
    """The rows that an UPDATE or DELETE touches: rowid, every column of the target, then the fragment's own items."""
    lowering = Queries(names, _types(fragment, variables))
    node = parse_query(fragment.text)
    if not isinstance(node, exp.Select):
        raise errors.syntax("FROM")
    scope, (prefix, source) = lowering.opened(node, None)
    if lowering.grouped is not None or node.args.get("distinct"):
        raise errors.unsupported("an aggregate in UPDATE or DELETE")
    relation = _target(scope, target) if has_from else scope.relations[0]
    if relation is None or relation.source is None or not relation.source.storage:
        found = names.source(tuple(target))
        if found is None or not has_from:
            raise errors.invalid_object(".".join(target))
        raise errors.unsupported("an UPDATE or DELETE whose target is not in its FROM")
    items = lowering.items(node, scope)
    row = [f"{relation.sql}.{relation.source.rowid}", *(o.expr.sql for o in relation.columns)]
    sql = f"{prefix}SELECT {', '.join([*row, *(o.expr.sql for o in items)])}{source}{lowering.limit(node, scope)}"
    columns = tuple(Column(o.name, o.expr.type) for o in items)
    return _plan(lowering, sql, columns), relation.source


def _target(scope: Scope, target: Sequence[str]) -> Relation | None:
    """By alias first, then by the table's name."""
    for relation in scope.relations:
        if len(target) == 1 and relation.alias.lower() == target[0].lower():
            return relation
    wanted = [part.lower() or "dbo" for part in target]
    for relation in scope.relations:
        if relation.source is not None:
            source = relation.source
            full = [source.database.lower(), source.schema.lower(), source.name.lower()]
            if full[-len(wanted) :] == wanted:
                return relation
    return None
