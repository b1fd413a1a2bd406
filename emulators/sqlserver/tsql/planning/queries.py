"""Lowers queries: SELECT with its clauses, set operators and subqueries.

Every output column is called c0, c1 ... in SQLite, so that T-SQL's unnamed and equally named columns are no trouble. Whatever a
clause holds beyond what is read here is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning import bounds, postponed
from emulators.sqlserver.tsql.planning.aggregates import aggregated, refuse_constants
from emulators.sqlserver.tsql.planning.apply import Applying
from emulators.sqlserver.tsql.planning.function_calls import is_word
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.relations import ROW, Lowered
from emulators.sqlserver.tsql.planning.scopes import Output, Relation, Scope, readable
from emulators.sqlserver.tsql.reading.trees import spelled
from emulators.sqlserver.tsql.values.calls import number_of_rows
from emulators.sqlserver.tsql.values.types import collation, family

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
_SAID = {"for_": "FOR XML, FOR JSON or FOR BROWSE", "windows": "WINDOW"}
_UNION_PARTS = frozenset(("this", "expression", "distinct", "order", "with_", "limit", "offset", "by_name"))


class Queries(Applying):
    """The whole of a query. An instance lowers one statement."""

    sent = False
    """Whether the rows of the next SELECT go to a client as they are."""
    later: tuple[str, ...] = ()
    """What that leaves to be made of them."""

    def query(self, node: exp.Expr, scope: Scope) -> Lowered:
        if isinstance(node, exp.Select):
            return self.select(node, scope)
        if isinstance(node, exp.Subquery) and node.args.get("alias") is None:
            for part, value in node.args.items():
                if value and part != "this":
                    raise errors.unsupported(f"{part.upper().rstrip('_')} behind a query in brackets")
            return self.query(node.this, scope)
        self.sent = False
        if isinstance(node, exp.SetOperation):
            return self.set_operation(node, scope)
        raise errors.unsupported(f"{spelled(node)} as a query")

    # -- SELECT

    def select(self, node: exp.Select, parent: Scope | None) -> Lowered:
        outside, self.no_aggregate = self.no_aggregate, 0
        try:
            return self._select(node, parent)
        finally:
            self.no_aggregate = outside

    def _select(self, node: exp.Select, parent: Scope | None) -> Lowered:
        sent, self.sent = self.sent, False
        scope, head = self.opened(node, parent)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise errors.keyword_syntax("ON")
        items = self.items(node, scope)
        outputs = [Output(o.name, o.expr) for o in items]
        selected = [self.collated(o.expr) if distinct is not None else o.expr.sql for o in items]
        if sent and distinct is None and not self.numbered and not _top_options(node) and postponed.allowed(node):
            selected, self.later = postponed.taken_off(selected)
        shown = [f"{sql} AS c{index}" for index, sql in enumerate(selected)]
        base = self._base(node, scope) if self.numbered and distinct is None else None
        if base is not None:
            shown.append(f"{base.sql}.{base.source.rowid if base.source else ''} AS {ROW}")
        sql = f"{head[0]}SELECT {'DISTINCT ' if distinct is not None else ''}{', '.join(shown)}{head[1]}"
        options = _top_options(node)
        if options:
            sql = self._top(node, scope, outputs, (head, shown), options)
            return Lowered(sql, self._renamed(outputs), True)
        order = self.order(node, scope, outputs)
        limit = self.limit(node, scope)
        source = base.source if base is not None else None
        return Lowered(sql + order + limit, self._renamed(outputs), bool(order or limit), source)

    def _base(self, node: exp.Select, scope: Scope) -> Relation | None:
        """The one stored table that a plain SELECT reads."""
        only = scope.relations[0] if len(scope.relations) == 1 else None
        if only is None or only.source is None or not only.source.storage or only.base:
            return None
        return None if node.args.get("group") is not None or aggregated(node) else only

    def _top(
        self,
        node: exp.Select,
        scope: Scope,
        outputs: Sequence[Output],
        parts: tuple[tuple[str, str], Sequence[str]],
        options: Sequence[str],
    ) -> str:
        """TOP (n) PERCENT and WITH TIES over the finished select: ordering values stand beside the items as o0, o1 ..."""
        terms = self.order_terms(node, scope, outputs)
        if "ties" in options and not terms:
            raise SqlError(
                1062, "The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.", 15
            )
        if node.args.get("distinct") is not None or node.args.get("with_") is not None:
            raise errors.unsupported("TOP ... PERCENT and WITH TIES beside DISTINCT or WITH")
        aliased = [sql.split(" ")[0] in {f"c{i}" for i in range(len(outputs))} for sql, _ in terms]
        extra = [f"{sql} AS o{i}" for i, (sql, _) in enumerate(terms) if not aliased[i]]
        named = [(sql if aliased[i] else f"o{i}", down) for i, (sql, down) in enumerate(terms)]
        order = ", ".join(f"{name}{down}" for name, down in named)
        head, shown = parts
        inner = f"{head[0]}SELECT {', '.join([*shown, *extra])}{head[1]}"
        count = self.count(_top_count(node), scope)
        if "percent" in options:
            count = f"(SELECT CAST(-floor(-({count}) * count(*) / 100.0) AS INTEGER) FROM ({inner}))"
        items = ", ".join(f"c{i}" for i in range(len(outputs)))
        by = f" ORDER BY {order}" if order else ""
        if "ties" not in options:
            return f"SELECT {items} FROM ({inner}){by} LIMIT {count}"
        ranked = f"SELECT *, rank() OVER (ORDER BY {order}) AS place FROM ({inner})"
        return f"SELECT {items} FROM ({ranked}) WHERE place <= {count}{by}"

    def opened(self, node: exp.Select, parent: Scope | None) -> tuple[Scope, tuple[str, str]]:
        """The scope of a SELECT, and its SQL before (WITH) and behind (FROM to HAVING) the select list."""
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                raise errors.unsupported(f"{_SAID.get(part, part.upper())} in SELECT")
        scope = Scope(parent)
        prefix = self.common_tables(node, scope)
        source = self.sources(node, scope)
        where = node.args.get("where")
        if where is not None:
            source += f" WHERE {self.where(where.this, scope, 147)}"
        group = node.args.get("group")
        if group is not None:
            source += f" GROUP BY {self.group(group, scope)}"
        having = node.args.get("having")
        if group is not None or having is not None or aggregated(node):
            self.grouped = scope.grouped = list(group.expressions) if group is not None else []
            if having is not None:
                self.ungrouped = 8121
                source += (
                    "" if group is not None else " GROUP BY NULL"
                ) + f" HAVING {self.condition(having.this, scope)}"
                self.ungrouped = 8120
        return scope, (prefix, source)

    def where(self, node: exp.Expr, scope: Scope, no_aggregate: int) -> str:
        """`no_aggregate`: the error for an aggregate in it."""
        grouped, self.grouped = self.grouped, None
        before, self.no_aggregate = self.no_aggregate, no_aggregate
        try:
            extra = [self.condition(bound, scope) for bound in bounds.implied(node)]
            return " AND ".join([*extra, self.condition(node, scope)])
        finally:
            self.grouped, self.no_aggregate = grouped, before

    def items(self, node: exp.Select, scope: Scope) -> list[Output]:
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
            star = item.this if isinstance(item, exp.Column) else item
            for part in (part for part, value in star.args.items() if value):
                raise errors.keyword_syntax(part.strip("_").upper())
            return self._star(qualifier, scope)
        if isinstance(item, exp.Alias):
            return [Output(item.alias, self.expression(item.this, scope))]
        expr = self.expression(item, scope)
        return [Output(item.name if isinstance(item, exp.Column) and not is_word(item) else "", expr)]

    def _star(self, qualifier: Sequence[str], scope: Scope) -> list[Output]:
        if self.grouped is not None:
            raise errors.unsupported("* in a grouped query")
        fold = self.names.fold
        found = [relation for relation in scope.relations if not qualifier or relation.named(qualifier, fold)]
        if qualifier and not found:
            raise SqlError(
                107,
                f"The column prefix '{'.'.join(qualifier)}' does not match with a table name or alias name used in the query.",
                15,
            )
        if not found:
            raise SqlError(263, "Must specify table to select from.", 16)
        return [Output(o.name, readable(o)) for relation in found for o in relation.columns]

    def _renamed(self, outputs: Sequence[Output]) -> list[Output]:
        return [Output(o.name, o.expr.read_as(f"c{i}")) for i, o in enumerate(outputs)]

    # -- ORDER BY, TOP, OFFSET

    def order(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> str:
        terms = self.order_terms(node, scope, outputs)
        return f" ORDER BY {', '.join(sql + down for sql, down in terms)}" if terms else ""

    def order_terms(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> list[tuple[str, str]]:
        """(SQL, "" or " DESC") of each term of ORDER BY."""
        order = node.args.get("order")
        if order is None:
            return []
        refuse_constants(order.expressions)
        self.grouped, self.ungrouped = scope.grouped, 8127
        try:
            return [
                (self.collated(self._order_term(item.this, scope, outputs)), " DESC" if item.args.get("desc") else "")
                for item in order.expressions
            ]
        finally:
            self.grouped, self.ungrouped = None, 8120

    def _order_term(self, node: exp.Expr, scope: Scope, outputs: Sequence[Output]) -> Expr:
        if isinstance(node, exp.Literal) and not node.args.get("is_string"):
            position = int(node.name)
            if not 1 <= position <= len(outputs):
                text = f"The ORDER BY position number {position} is out of range of the number of items in the select list."
                raise SqlError(108, text, 16)
            return outputs[position - 1].expr.read_as(f"c{position - 1}")
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            fold = self.names.fold
            matches = [i for i, o in enumerate(outputs) if fold(o.name) == fold(node.name)]
            if matches:
                if len({outputs[i].expr.sql for i in matches}) > 1:
                    raise errors.ambiguous_column(node.name)
                return outputs[matches[0]].expr.read_as(f"c{matches[0]}")
        return self.expression(node, scope)

    def limit(self, node: exp.Expr, scope: Scope) -> str:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            return ""
        count: exp.Expr | None = None
        if limit is not None:
            if _top_options(node):
                raise errors.unsupported("TOP ... PERCENT and WITH TIES here")
            count = limit.args.get("count") or limit.args.get("expression")
        if offset is not None and node.args.get("order") is None:
            raise errors.syntax("OFFSET")
        sql = f" LIMIT {self.count(count, scope)}" if count is not None else " LIMIT -1"
        return sql + (f" OFFSET {self.count(offset.expression, scope, skipped=True)}" if offset is not None else "")

    def count(self, node: exp.Expr, scope: Scope, *, skipped: bool = False) -> str:
        while isinstance(node, exp.Paren):
            node = node.this
        expr = self.expression(node, Scope())
        if family(expr.type) != "int":
            raise errors.no_number_of_rows(skipped=skipped)
        if isinstance(expr.constant, int) and expr.constant >= 0:
            return expr.sql
        return self.call(("number of rows", skipped), lambda: number_of_rows(skipped), [expr], expr.type).sql

    # -- set operators and subqueries

    def set_operation(self, node: exp.SetOperation, parent: Scope | None) -> Lowered:
        for part, value in node.args.items():
            if value and part not in _UNION_PARTS:
                raise errors.unsupported(f"{_SAID.get(part, part.upper())} in {type(node).__name__.upper()}")
        scope = Scope(parent)
        prefix = self.common_tables(node, scope)
        left, right = self.query(node.left, scope), self.query(node.right, scope)
        if len(left.outputs) != len(right.outputs):
            text = (
                "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of "
                "expressions in their target lists."
            )
            raise SqlError(205, text, 16)
        distinct = bool(node.args.get("distinct")) or not isinstance(node, exp.Union)
        word = {exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}.get(type(node), "UNION" if distinct else "UNION ALL")
        pairs = [(a.expr, b.expr) for a, b in zip(left.outputs, right.outputs, strict=True)]
        types = [self.unify(pair) for pair in pairs]
        if distinct:
            types = [self.compared_type(kind, pair, word) for kind, pair in zip(types, pairs, strict=True)]
        sql = f"{self._branch(left, types, distinct)} {word} {self._branch(right, types, distinct, _compound(node.right))}"
        outputs = [
            Output(
                output.name,
                self.labelled(
                    Expr(f"c{i}", kind, a.nullable or b.nullable, False, a.is_null and b.is_null), (a, b), word
                ),
            )
            for i, (output, (a, b), kind) in enumerate(zip(left.outputs, pairs, types, strict=True))
        ]
        order, limit = self._order_of_set(node, scope, outputs), self.limit(node, scope)
        if order or limit:
            sql = f"SELECT * FROM ({sql}){order}{limit}"
        return Lowered(prefix + sql, outputs, bool(order or limit or prefix))

    def _order_of_set(self, node: exp.SetOperation, scope: Scope, outputs: Sequence[Output]) -> str:
        """ORDER BY behind UNION: names of the result, and columns as the first SELECT writes them. Raises 104 for other ones."""
        first: exp.Expr = node
        while isinstance(first, exp.SetOperation | exp.Subquery):
            first = first.left if isinstance(first, exp.SetOperation) else first.this
        listed = [self._written(item.this if isinstance(item, exp.Alias) else item) for item in first.expressions]
        for item in node.args["order"].expressions if node.args.get("order") is not None else ():
            written = self._written(item.this)
            if len(written) < 2:
                continue
            if written not in listed:
                text = (
                    "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT "
                    "operator."
                )
                raise SqlError(104, text, 15)
            output = outputs[listed.index(written)]
            named = Output(item.this.name, output.expr)
            scope.relations.append(Relation(item.this.parts[-2].name, "", [named]))
        return self.order(node, scope, outputs)

    def _written(self, node: exp.Expr) -> tuple[str, ...]:
        """The parts of a column's name, folded; nothing for other expressions."""
        return tuple(self.names.fold(part.name) for part in node.parts) if isinstance(node, exp.Column) else ()

    def _branch(self, branch: Lowered, types: Sequence[SqlType], distinct: bool, wrapped: bool = False) -> str:
        cells = [self.represented(output.expr, kind) for output, kind in zip(branch.outputs, types, strict=True)]
        orders = [f" COLLATE {collation(kind)}" if distinct and collation(kind) else "" for kind in types]
        same = all(cell.sql == output.expr.sql for cell, output in zip(cells, branch.outputs, strict=True))
        if same and not any(orders) and not branch.ordered and not wrapped:
            return branch.sql
        shown = [f"{cell.sql}{orders[i]} AS c{i}" for i, cell in enumerate(cells)]
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
        return replace(output.read_as(f"(SELECT only_one(c0) FROM ({lowered.sql}))", True), identity=False)

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
        kind = self.compared_type(self.unify([left, output]), [left, output], "equal to")
        value, item = self.comparable(left, kind), self.comparable(output, kind)
        if family(kind) == "binary":
            value, item = self._trimmed(left), self._trimmed(output)
        return Expr(value.sql, kind), f"SELECT {item.sql} FROM ({lowered.sql})"


def _compound(node: exp.Expr) -> bool:
    """Whether a right-hand side is a set operation itself: SQLite has no precedence among them."""
    return isinstance(node.unnest(), exp.SetOperation)


def _top_options(node: exp.Expr) -> tuple[str, ...]:
    limit = node.args.get("limit")
    options = limit.args.get("limit_options") if limit is not None else None
    if options is None:
        return ()
    return tuple(name for name, part in (("percent", "percent"), ("ties", "with_ties")) if options.args.get(part))


def _top_count(node: exp.Expr) -> exp.Expr:
    limit = node.args["limit"]
    found: exp.Expr = limit.args.get("count") or limit.args["expression"]
    return found
