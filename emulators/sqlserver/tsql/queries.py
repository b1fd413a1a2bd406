"""Lowers queries: SELECT with its clauses, set operators, joins, derived tables, common table expressions and aggregates.

Every output column is called c0, c1 ... in SQLite, so that T-SQL's unnamed and equally named columns are no trouble; relations are
called s1, s2 ... Whatever a clause holds beyond what is read here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from emulators.sqlserver.results import Column, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import bounds, errors
from emulators.sqlserver.tsql.calls import checked_whole
from emulators.sqlserver.tsql.expressions import AGGREGATES
from emulators.sqlserver.tsql.fragments import LIFTED, Fragment
from emulators.sqlserver.tsql.plans import Expr, Names, Plan, Source, Virtual
from emulators.sqlserver.tsql.predicates import Predicates
from emulators.sqlserver.tsql.scopes import Output, Relation, Scope
from emulators.sqlserver.tsql.trees import parse_query
from emulators.sqlserver.tsql.types import BIGINT, INT, RANGES, collation, family, summed

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PARAMETER = re.compile(r"\?(\d+)")
_SELECT_PARTS = frozenset(
    (
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "distinct",
        "with_",
        "options",
        "kind",
    )
)
_TABLE_PARTS = frozenset(("this", "db", "catalog", "alias", "hints"))
_UNION_PARTS = frozenset(("this", "expression", "distinct", "order", "with_", "limit", "offset", "by_name"))
_HINTS = frozenset(
    (
        "NOLOCK",
        "READUNCOMMITTED",
        "READCOMMITTED",
        "READCOMMITTEDLOCK",
        "READPAST",
        "ROWLOCK",
        "PAGLOCK",
        "TABLOCK",
        "TABLOCKX",
        "UPDLOCK",
        "XLOCK",
        "HOLDLOCK",
        "SERIALIZABLE",
        "REPEATABLEREAD",
        "NOWAIT",
        "FORCESEEK",
        "NOEXPAND",
    )
)


@dataclass(slots=True)
class Lowered:
    """A query's SQL, its outputs as they read from outside (c0 ...), and whether it must be wrapped inside a UNION."""

    sql: str
    outputs: list[Output]
    ordered: bool = False


class Queries(Predicates):
    """Adds queries to conditions and scalar expressions."""

    def __init__(self, names: Names, variables: Mapping[str, SqlType]) -> None:
        super().__init__(names, variables)
        self._relations = 0
        self._argument_parameters: tuple[str, ...] = ()

    def next_name(self) -> str:
        self._relations += 1
        return f"s{self._relations}"

    def query(self, node: exp.Expr, scope: Scope) -> Lowered:
        if isinstance(node, exp.Select):
            return self.select(node, scope)
        if isinstance(node, exp.Subquery) and node.args.get("alias") is None:
            return self.query(node.this, scope)
        if isinstance(node, exp.SetOperation):
            return self.set_operation(node, scope)
        raise errors.unsupported(f"query {type(node).__name__}")

    # -- SELECT

    def select(self, node: exp.Select, parent: Scope | None) -> Lowered:
        scope, head = self.opened(node, parent)
        distinct = node.args.get("distinct")
        items = self._items(node, scope)
        outputs = [Output(o.name, o.expr) for o in items]
        shown = []
        for index, output in enumerate(items):
            expr = output.expr
            suffix = f" COLLATE {collation(expr.type)}" if distinct is not None and collation(expr.type) else ""
            shown.append(f"{expr.sql}{suffix} AS c{index}")
        sql = f"{head[0]}SELECT {'DISTINCT ' if distinct is not None else ''}{', '.join(shown)}{head[1]}"
        order = self._order(node, scope, outputs)
        limit = self._limit(node, scope)
        return Lowered(sql + order + limit, self._renamed(outputs), bool(order or limit))

    def opened(self, node: exp.Select, parent: Scope | None) -> tuple[Scope, tuple[str, str]]:
        """The scope of a SELECT, and its SQL before (WITH) and behind (FROM to HAVING) the select list."""
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                raise errors.unsupported(f"{part.strip('_').upper()} in SELECT")
        scope = Scope(parent)
        prefix = self._ctes(node, scope)
        source = self._from(node, scope)
        where = node.args.get("where")
        if where is not None:
            source += f" WHERE {self._where(where.this, scope)}"
        group = node.args.get("group")
        if group is not None:
            source += f" GROUP BY {self._group(group, scope)}"
        having = node.args.get("having")
        if group is not None or having is not None or _aggregates(node):
            self.grouped = list(group.expressions) if group is not None else []
            if having is not None:
                source += (
                    "" if group is not None else " GROUP BY NULL"
                ) + f" HAVING {self.condition(having.this, scope)}"
        return scope, (prefix, source)

    def _where(self, node: exp.Expr, scope: Scope) -> str:
        grouped, self.grouped = self.grouped, None
        try:
            extra = [self.condition(bound, scope) for bound in bounds.implied(node)]
            return " AND ".join([*extra, self.condition(node, scope)])
        finally:
            self.grouped = grouped

    def _items(self, node: exp.Select, scope: Scope) -> list[Output]:
        outputs: list[Output] = []
        try:
            for item in node.expressions:
                outputs += self._item(item, scope)
        finally:
            self.grouped = None
        return outputs

    def _item(self, item: exp.Expr, scope: Scope) -> list[Output]:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            qualifier = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
            return self._star(qualifier, scope)
        if isinstance(item, exp.Alias):
            return [Output(item.alias, self.expression(item.this, scope))]
        expr = self.expression(item, scope)
        return [Output(item.name if isinstance(item, exp.Column) and expr.sql.startswith("s") else "", expr)]

    def _star(self, qualifier: Sequence[str], scope: Scope) -> list[Output]:
        if self.grouped is not None:
            raise errors.unsupported("* in a grouped query")
        found = [relation for relation in scope.relations if not qualifier or relation.named(qualifier)]
        if qualifier and not found:
            raise SqlError(
                107,
                f"The column prefix '{'.'.join(qualifier)}' does not match with a table name or alias name used in the query.",
                15,
            )
        if not found:
            raise SqlError(263, "Must specify table to select from.", 16)
        return [output for relation in found for output in relation.columns]

    def _renamed(self, outputs: Sequence[Output]) -> list[Output]:
        return [
            Output(o.name, Expr(f"c{i}", o.expr.type, o.expr.nullable, o.expr.identity, o.expr.is_null))
            for i, o in enumerate(outputs)
        ]

    def _group(self, group: exp.Expr, scope: Scope) -> str:
        if any(value for part, value in group.args.items() if part != "expressions") or any(
            isinstance(item, exp.Rollup | exp.Cube | exp.GroupingSets) for item in group.expressions
        ):
            raise errors.unsupported("ROLLUP, CUBE and GROUPING SETS")
        if any(isinstance(item, exp.Literal) for item in group.expressions):
            text = "Each GROUP BY expression must contain at least one column that is not an outer reference."
            raise SqlError(164, text, 15)
        return ", ".join(self._collated(self.expression(item, scope)) for item in group.expressions)

    def _collated(self, expr: Expr) -> str:
        return f"{expr.sql} COLLATE {collation(expr.type)}" if collation(expr.type) else expr.sql

    # -- ORDER BY, TOP, OFFSET

    def _order(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> str:
        order = node.args.get("order")
        if order is None:
            return ""
        terms = []
        for item in order.expressions:
            term = self._order_term(item.this, scope, outputs)
            terms.append(self._collated(term) + (" DESC" if item.args.get("desc") else ""))
        return f" ORDER BY {', '.join(terms)}"

    def _order_term(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> Expr:
        if isinstance(node, exp.Literal) and not node.args.get("is_string"):
            position = int(node.name)
            if not 1 <= position <= len(outputs):
                text = f"The ORDER BY position number {position} is out of range of the number of items in the select list."
                raise SqlError(108, text, 16)
            return Expr(f"c{position - 1}", outputs[position - 1].expr.type)
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            matches = [i for i, o in enumerate(outputs) if o.name.lower() == node.name.lower()]
            if matches:
                if len({outputs[i].expr.sql for i in matches}) > 1:
                    raise errors.ambiguous_column(node.name)
                return Expr(f"c{matches[0]}", outputs[matches[0]].expr.type)
        return self.expression(node, scope)

    def _limit(self, node: exp.Expr, scope: Scope) -> str:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return ""
        count: exp.Expr | None = None
        if limit is not None:
            options = limit.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                raise errors.unsupported("TOP ... PERCENT and WITH TIES")
            count = limit.args.get("count") or limit.args.get("expression")
        if offset is not None and node.args.get("order") is None:
            raise errors.syntax("OFFSET")
        sql = f" LIMIT {self._count(count, scope)}" if count is not None else " LIMIT -1"
        return sql + (f" OFFSET {self._count(offset.expression, scope)}" if offset is not None else "")

    def _count(self, node: exp.Expr, scope: Scope) -> str:
        while isinstance(node, exp.Paren):
            node = node.this
        expr = self.expression(node, Scope())
        if family(expr.type) != "int":
            text = "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."
            raise SqlError(1060, text, 15)
        return expr.sql

    # -- FROM

    def _ctes(self, node: exp.Expr, scope: Scope) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        if clause.args.get("recursive"):
            raise errors.syntax("RECURSIVE")
        parts = []
        for cte in clause.expressions:
            lowered = self.query(cte.this, scope)
            name = self.next_name()
            outputs = _with_names(lowered.outputs, cte.args["alias"])
            parts.append(f"{name} AS ({lowered.sql})")
            scope.ctes[cte.alias.lower()] = (name, outputs)
        return f"WITH {', '.join(parts)} "

    def _from(self, node: exp.Select, scope: Scope) -> str:
        clause = node.args.get("from_")
        if clause is None:
            return ""
        sql = " FROM " + self._relation(clause.this, scope)
        for join in [*(clause.this.args.get("joins") or []), *(node.args.get("joins") or [])]:
            sql += self._join(join, scope)
        return sql

    def _join(self, join: exp.Expr, scope: Scope) -> str:
        for part, value in join.args.items():
            if value and part not in ("this", "side", "kind", "on"):
                raise errors.unsupported(f"JOIN with {part.upper()}")
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS"):
            raise errors.unsupported(f"{kind} JOIN")
        before = len(scope.relations)
        sql = self._relation(join.this, scope)
        if side in ("LEFT", "FULL"):
            scope.relations[before:] = [_nullable(relation) for relation in scope.relations[before:]]
        if side in ("RIGHT", "FULL"):
            scope.relations[:before] = [_nullable(relation) for relation in scope.relations[:before]]
        condition = join.args.get("on")
        if condition is None:
            if side or kind == "INNER":
                raise errors.syntax("JOIN")
            return f" JOIN {sql}"
        return f" {side + ' ' if side else ''}JOIN {sql} ON {self._where(condition, scope)}"

    def _relation(self, node: exp.Expr, scope: Scope) -> str:
        if isinstance(node, exp.Subquery):
            return self._derived(node, self.query(node.this, scope.parent or Scope(None, [], scope.ctes)), scope)
        if isinstance(node, exp.Values):
            return self._derived(node, self._values(node, scope), scope)
        if not isinstance(node, exp.Table):
            raise errors.unsupported(f"{type(node).__name__} in FROM")
        for part, value in node.args.items():
            if value and part not in _TABLE_PARTS and part != "joins":
                raise errors.unsupported(f"{part.upper()} on a table")
        self._check_hints(node)
        if isinstance(node.this, exp.Anonymous):
            return self._function(node, scope)
        return self._table(node, scope)

    def _check_hints(self, node: exp.Table) -> None:
        for clause in node.args.get("hints") or []:
            for hint in clause.expressions:
                if hint.name.upper() not in _HINTS:
                    raise errors.unsupported(f"table hint {hint.sql()}")

    def _derived(self, node: exp.Expr, lowered: Lowered, scope: Scope) -> str:
        alias = node.args.get("alias")
        if alias is None or alias.this is None:
            raise errors.syntax(")")
        name = self.next_name()
        outputs = _with_names(lowered.outputs, alias)
        scope.relations.append(Relation(alias.name, name, _under(name, outputs)))
        return f"({lowered.sql}) AS {name}"

    def _values(self, node: exp.Values, scope: Scope) -> Lowered:
        rows = [[self.expression(cell, Scope(scope.parent)) for cell in row.expressions] for row in node.expressions]
        types = [self.unify(column) for column in zip(*rows, strict=True)]
        selects = []
        for row in rows:
            cells = [
                f"{self.represented(cell, kind).sql} AS c{i}"
                for i, (cell, kind) in enumerate(zip(row, types, strict=True))
            ]
            selects.append("SELECT " + ", ".join(cells))
        outputs = [Output("", Expr(f"c{i}", kind)) for i, kind in enumerate(types)]
        return Lowered(" UNION ALL ".join(selects), outputs)

    def _table(self, node: exp.Table, scope: Scope) -> str:
        parts = _name_parts(node)
        alias = node.args.get("alias")
        name = self.next_name()
        if len(parts) == 1 and (cte := scope.cte(parts[0])) is not None:
            scope.relations.append(Relation(alias.name if alias else parts[0], name, _under(name, cte[1])))
            return f"{cte[0]} AS {name}"
        source = self.names.source(parts)
        if source is None:
            raise errors.invalid_object(".".join(parts))
        return self._named_source(source, name, alias, scope, ())

    def _named_source(
        self, source: Source, name: str, alias: exp.Expr | None, scope: Scope, arguments: tuple[Expr, ...]
    ) -> str:
        table = source.storage
        if not table:
            table = f"temp.v{len(self.virtuals)}_{len(source.columns)}"
            self.virtuals.append(Virtual(table, source, arguments, self._argument_parameters if arguments else ()))
        else:
            self.databases.add(source.database)
        outputs = [
            Output(
                column.name,
                Expr(_column_sql(name, source, index, column), column.type, column.nullable, column.identity),
            )
            for index, column in enumerate(source.columns)
        ]
        if alias is not None and alias.args.get("columns"):
            outputs = _with_names(outputs, alias)
        shown = alias.name if alias is not None else source.name
        scope.relations.append(Relation(shown, name, outputs, source, alias is not None))
        return f"{table} AS {name}"

    def _function(self, node: exp.Table, scope: Scope) -> str:
        call = node.this
        parts = (*_name_parts(node)[:-1], call.name)
        source = self.names.table_function(parts, len(call.expressions))
        if source is None:
            raise errors.invalid_object(".".join(parts))
        outer, self.parameters = self.parameters, []
        arguments = tuple(self.expression(argument, Scope()) for argument in call.expressions)
        self._argument_parameters, self.parameters = tuple(self.parameters), outer
        return self._named_source(source, self.next_name(), node.args.get("alias"), scope, arguments)

    # -- set operators and subqueries

    def set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Lowered:
        for part, value in node.args.items():
            if value and part not in _UNION_PARTS:
                raise errors.unsupported(f"{part.upper()} in {type(node).__name__.upper()}")
        scope = Scope(parent)
        prefix = self._ctes(node, scope)
        left, right = self.query(node.left, scope), self.query(node.right, scope)
        if len(left.outputs) != len(right.outputs):
            text = (
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of "
                "expressions in their target lists."
            )
            raise SqlError(205, text, 16)
        types = [self.unify([a.expr, b.expr]) for a, b in zip(left.outputs, right.outputs, strict=True)]
        distinct = bool(node.args.get("distinct")) or not isinstance(node, exp.Union)
        word = {exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}.get(type(node), "UNION" if distinct else "UNION ALL")
        sql = f"{self._branch(left, types, distinct)} {word} {self._branch(right, types, distinct)}"
        outputs = [
            Output(
                a.name,
                Expr(f"c{i}", kind, a.expr.nullable or b.expr.nullable, False, a.expr.is_null and b.expr.is_null),
            )
            for i, (a, b, kind) in enumerate(zip(left.outputs, right.outputs, types, strict=True))
        ]
        order, limit = self._order(node, scope, outputs), self._limit(node, scope)
        if order or limit:
            sql = f"SELECT * FROM ({sql}){order}{limit}"
        return Lowered(prefix + sql, outputs, bool(order or limit or prefix))

    def _branch(self, branch: Lowered, types: Sequence[SqlType], distinct: bool) -> str:
        cells = [self.represented(output.expr, kind) for output, kind in zip(branch.outputs, types, strict=True)]
        same = all(cell.sql == output.expr.sql for cell, output in zip(cells, branch.outputs, strict=True))
        collated = distinct and any(collation(kind) for kind in types)
        if same and not collated and not branch.ordered:
            return branch.sql
        shown = [f"{self._collated(cell) if collated else cell.sql} AS c{i}" for i, cell in enumerate(cells)]
        return f"SELECT {', '.join(shown)} FROM ({branch.sql})"

    def _inner(self, node: exp.Expr, scope: Scope) -> Lowered:
        grouped, self.grouped = self.grouped, None
        try:
            return self.query(node, scope)
        finally:
            self.grouped = grouped

    def scalar_subquery(self, node: exp.Expr, scope: Scope) -> Expr:
        lowered = self._inner(node, scope)
        if len(lowered.outputs) != 1:
            text = "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS."
            raise SqlError(116, text, 16)
        output = lowered.outputs[0].expr
        return Expr(f"(SELECT only_one(c0) FROM ({lowered.sql}))", output.type)

    def exists_subquery(self, node: exp.Expr, scope: Scope) -> str:
        return self._inner(node, scope).sql

    def list_subquery(self, node: exp.Expr, left: Expr, scope: Scope) -> tuple[Expr, str]:
        lowered = self._inner(node, scope)
        if len(lowered.outputs) != 1:
            raise SqlError(
                116,
                "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
                16,
            )
        output = lowered.outputs[0].expr
        kind = self.unify([left, output])
        value, item = self.comparable(left, kind), self.comparable(output, kind)
        if family(kind) == "binary":
            value, item = self._trimmed(left), self._trimmed(output)
        return Expr(value.sql, kind), f"SELECT {item.sql} FROM ({lowered.sql})"

    # -- aggregates and windows

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
        shown = distinct + self._collated(value)
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

    def _exact_check(self, kind: SqlType):  # type: ignore[no-untyped-def]  # a Call
        from emulators.sqlserver.tsql.convert import converter

        return converter(SqlType("numeric", None, 38, kind.scale if kind.scale is not None else 4), kind)

    def _average(self, total: Expr, count: Expr, kind: SqlType) -> Expr:
        from emulators.sqlserver.tsql import arithmetic

        make = arithmetic.whole if family(kind) == "int" else arithmetic.exact

        def divided():  # type: ignore[no-untyped-def]  # a Call
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
                "PARTITION BY "
                + ", ".join(self._collated(self.expression(p, scope)) for p in node.args["partition_by"])
            )
        if node.args.get("order") is not None:
            parts.append(self._order(node, scope, ()).strip())
        return Expr(f"{value.sql} OVER ({' '.join(parts)})", value.type, value.nullable)


def _aggregates(node: exp.Select) -> bool:
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


def _name_parts(node: exp.Table) -> tuple[str, ...]:
    catalog, schema = node.args.get("catalog"), node.args.get("db")
    parts = [node.name]
    if schema is not None:
        parts.insert(0, schema.name if isinstance(schema, exp.Expr) else "")
    if catalog is not None:
        parts.insert(0, catalog.name)
    return tuple(parts)


def _with_names(outputs: Sequence[Output], alias: exp.Expr) -> list[Output]:
    """Outputs under the names of an alias's column list, if it has one."""
    columns = alias.args.get("columns") or []
    if columns and len(columns) != len(outputs):
        fewer = "fewer" if len(columns) < len(outputs) else "more"
        raise SqlError(8158, f"'{alias.name}' has {fewer} columns than were specified in the column list.", 16)
    return [Output(c.name, o.expr) for c, o in zip(columns, outputs, strict=True)] if columns else list(outputs)


def _under(name: str, outputs: Sequence[Output]) -> list[Output]:
    return [
        Output(o.name, Expr(f"{name}.c{i}", o.expr.type, o.expr.nullable, o.expr.identity, o.expr.is_null))
        for i, o in enumerate(outputs)
    ]


def _column_sql(name: str, source: Source, index: int, column: Column) -> str:
    return f'{name}."{column.name.replace(chr(34), chr(34) * 2)}"' if source.storage else f"{name}.c{index}"


def _nullable(relation: Relation) -> Relation:
    outputs = [
        Output(o.name, Expr(o.expr.sql, o.expr.type, True, o.expr.identity, o.expr.is_null)) for o in relation.columns
    ]
    return Relation(relation.alias, relation.sql, outputs, relation.source, relation.aliased)


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
    items = lowering._items(node, scope)
    row = [f"{relation.sql}.{relation.source.rowid}", *(o.expr.sql for o in relation.columns)]
    sql = f"{prefix}SELECT {', '.join([*row, *(o.expr.sql for o in items)])}{source}{lowering._limit(node, scope)}"
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
