"""Lowers FROM: tables, derived tables, VALUES, common table expressions, table functions and joins. Relations are called s1, s2 ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from emulators.sqlserver.results import Column, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning.hinted import Hinted, check_hints_of_table, handed_down, names_of_hints
from emulators.sqlserver.tsql.planning.plans import ELSEWHERE, Expr, Names, Source, Virtual
from emulators.sqlserver.tsql.planning.precedence import EXPLICIT, IMPLICIT
from emulators.sqlserver.tsql.planning.predicates import Predicates
from emulators.sqlserver.tsql.planning.scopes import CommonTable, Output, Relation, Scope
from emulators.sqlserver.tsql.reading.dml.hints import HINTS
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.trees import parse_query, spelled

ROW = "row_number_of_base"
_TABLE_PARTS = frozenset(("this", "db", "catalog", "alias", "hints"))
_SAID = {"pivots": "PIVOT or UNPIVOT", "sample": "TABLESAMPLE", "version": "FOR SYSTEM_TIME"}
_DERIVED_PARTS = frozenset(("this", "expressions", "alias", "joins"))
_MOST_UNITED = 499
"""One less than SQLite takes."""
_WITH_DEFAULTS = frozenset(("fn_listextendedproperty",))
"""Table functions whose arguments may be DEFAULT, which is NULL there."""


@dataclass(slots=True)
class Lowered:
    """A query's SQL, its outputs as they read from outside (c0 ...), and whether it must be wrapped inside a UNION."""

    sql: str
    outputs: list[Output]
    ordered: bool = False
    source: Source | None = None
    """The one table whose rows these are, when the row numbers stand beside them in column ROW."""


class Relations(Predicates):
    """Adds the relations of FROM to conditions and scalar expressions."""

    def __init__(self, names: Names, variables: Mapping[str, SqlType]) -> None:
        super().__init__(names, variables)
        self._relations = 0
        self.numbered = False
        """Whether common table expressions over one table yield its row numbers: for UPDATE and DELETE through them."""
        self._argument_parameters: tuple[str, ...] = ()
        self.hinted: list[Hinted] = []
        """The stored tables that the query reads, and their hints, those of the views around them included."""

    # Implemented where whole queries are lowered.
    def query(self, node: exp.Expr, scope: Scope) -> Lowered:
        raise NotImplementedError

    def where(self, node: exp.Expr, scope: Scope, no_aggregate: int) -> str:
        raise NotImplementedError

    def apply(self, node: exp.Lateral, scope: Scope) -> str:
        raise NotImplementedError

    def next_name(self) -> str:
        self._relations += 1
        return f"s{self._relations}"

    def common_tables(self, node: exp.Expr, scope: Scope) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        if clause.args.get("recursive"):
            raise errors.syntax("RECURSIVE")
        parts = []
        for cte in clause.expressions:
            self._check_recursion(cte)
            lowered, tables = self._apart(cte.this, scope)
            name = self.next_name()
            outputs = with_names(lowered.outputs, cte.args["alias"])
            parts.append(f"{name} AS ({lowered.sql})")
            scope.ctes[self.names.fold(cte.alias)] = CommonTable(
                name, outputs, lowered.source, ROW if lowered.source else "", tables
            )
        return f"WITH {', '.join(parts)} "

    def _check_recursion(self, cte: exp.Expr) -> None:
        """https://learn.microsoft.com/sql/t-sql/queries/with-common-table-expression-transact-sql (recursive ones). Raises 252."""
        fold, name, query = self.names.fold, cte.alias, cte.this
        named = [name_parts(table) for table in query.find_all(exp.Table)]
        if not any(len(parts) == 1 and fold(parts[0]) == fold(name) for parts in named):
            return
        if isinstance(query, exp.Union) and not query.args.get("distinct"):
            raise errors.unsupported(f"a recursive WITH ({name})")
        text = f"Recursive common table expression '{name}' does not contain a top-level UNION ALL operator."
        raise SqlError(252, text, 16)

    def sources(self, node: exp.Select, scope: Scope) -> str:
        clause = node.args.get("from_")
        if clause is None:
            return ""
        sql = " FROM " + self._relation(clause.this, scope)
        for join in [*(clause.this.args.get("joins") or []), *(node.args.get("joins") or [])]:
            sql += self._join(join, scope)
        return sql

    def _join(self, join: exp.Expr, scope: Scope) -> str:
        for part, value in join.args.items():
            if value and part not in ("this", "side", "kind", "on", "hint"):
                raise errors.unsupported(f"{value} JOIN" if part == "method" else f"JOIN with {part.upper()}")
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS"):
            raise errors.unsupported(f"{kind} JOIN")
        if join.args.get("hint") and not (side or kind == "INNER"):
            raise errors.syntax("JOIN")  # a join hint needs the word INNER; SQLite chooses how to join by itself
        if isinstance(join.this, exp.Lateral):
            return self.apply(join.this, scope)
        if join.this.args.get("joins"):
            raise errors.unsupported("a join inside another one's table")
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
        return f" {side + ' ' if side else ''}JOIN {sql} ON {self.where(condition, scope, 1015)}"

    def _relation(self, node: exp.Expr, scope: Scope) -> str:
        if isinstance(node, exp.Subquery | exp.Values):
            _check_derived(node)
        if isinstance(node, exp.Subquery):
            return self._derived(node, self.query(node.this, Scope(scope.parent, [], scope.ctes)), scope)
        if isinstance(node, exp.Values):
            return self._derived(node, self.constructed(node, scope), scope)
        if not isinstance(node, exp.Table):
            raise errors.unsupported(f"{spelled(node)} in FROM")
        for part, value in node.args.items():
            if value and part not in _TABLE_PARTS and part != "joins":
                raise errors.unsupported(f"{_SAID.get(part, part.strip('_').upper())} on a table")
        self._check_hints(node)
        if isinstance(node.this, exp.Anonymous):
            return self._function(node, scope)
        return self._table(node, scope)

    def _check_hints(self, node: exp.Table) -> None:
        for clause in node.args.get("hints") or []:
            for hint in clause.expressions:
                if hint.name.upper() not in HINTS and _named_index(hint) is None:
                    raise errors.unsupported(f"table hint {hint.sql()}")

    def _check_index_hints(self, node: exp.Table, source: Source) -> None:
        """An index that is named must exist; which one is read, SQLite decides.

        https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table (INDEX)"""
        known = {self.names.fold(name) for name in source.indexes}
        for clause in node.args.get("hints") or []:
            for hint in clause.expressions:
                name = _named_index(hint)
                if name is not None and self.names.fold(name) not in known:
                    raise errors.unknown_index(name, f"{source.schema}.{source.name}")

    def _note_locks(self, node: exp.Table, source: Source) -> None:
        table = source.storage or source.view.removeprefix(ELSEWHERE) * source.view.startswith(ELSEWHERE)
        if table:
            hints = names_of_hints(node)
            check_hints_of_table(hints)
            self.hinted.append(((source.database, table), hints))

    def _apart(self, node: exp.Expr, scope: Scope) -> tuple[Lowered, Sequence[Hinted]]:
        """A query, and the tables that it reads, which are not read until somebody names it."""
        outer, self.hinted = self.hinted, []
        try:
            return self.query(node, scope), self.hinted
        finally:
            self.hinted = outer

    def _derived(self, node: exp.Expr, lowered: Lowered, scope: Scope) -> str:
        alias = node.args.get("alias")
        if alias is None or alias.this is None:
            raise errors.syntax(")")
        name = self.next_name()
        outputs = with_names(lowered.outputs, alias)
        scope.relations.append(Relation(alias.name, name, _under(name, outputs)))
        return f"({lowered.sql}) AS {name}"

    def constructed(self, node: exp.Values, scope: Scope) -> Lowered:
        """VALUES as a table. SQLite's own knows no columns of the query around it, UNION ALL does."""
        if len({len(row.expressions) for row in node.expressions}) > 1:
            text = "All the rows in a table value constructor must have the same number of values"
            raise SqlError(10709, text, 16)
        rows = [[self.expression(cell, Scope(scope.parent)) for cell in row.expressions] for row in node.expressions]
        types = [self.unify(column) for column in zip(*rows, strict=True)]
        listed = [
            ", ".join(self.represented(cell, kind).sql for cell, kind in zip(row, types, strict=True)) for row in rows
        ]
        names = ", ".join(f"column{i + 1} AS c{i}" for i in range(len(types)))
        outputs = [
            Output("", self.labelled(Expr(f"c{i}", kind), column, "UNION ALL"))
            for i, (kind, column) in enumerate(zip(types, zip(*rows, strict=True), strict=True))
        ]
        if scope.parent is None or node.find(exp.Column) is None:
            return Lowered(f"SELECT {names} FROM (VALUES ({'), ('.join(listed)}))", outputs)
        if len(listed) > _MOST_UNITED:
            raise errors.unsupported(f"VALUES with columns of an outer query in more than {_MOST_UNITED} rows")
        none = ", ".join(f"NULL AS column{i + 1}" for i in range(len(types)))
        united = "".join(f" UNION ALL SELECT {row}" for row in listed)
        return Lowered(f"SELECT {names} FROM (SELECT {none} WHERE 0{united})", outputs)

    def _table(self, node: exp.Table, scope: Scope) -> str:
        parts = name_parts(node)
        alias = node.args.get("alias")
        name = self.next_name()
        if len(parts) == 1 and (cte := scope.cte(self.names.fold(parts[0]))) is not None:
            outputs = _under(name, cte.outputs)
            self.hinted += handed_down(names_of_hints(node), cte.tables)
            scope.relations.append(
                Relation(alias.name if alias else parts[0], name, outputs, cte.source, True, cte.base)
            )
            return f"{cte.sql} AS {name}"
        source = self.names.source(parts)
        if source is None:
            return self._user_view(node, parts, scope)
        self._check_index_hints(node, source)
        self._note_locks(node, source)
        return self._named_source(source, name, alias, scope, ())

    def _user_view(self, node: exp.Table, parts: tuple[str, ...], scope: Scope) -> str:
        alias = node.args.get("alias")
        found = self.names.view(parts)
        if found is None:
            raise errors.invalid_object(".".join(parts))
        lowered, tables = self._apart(parse_query(found[0].text), Scope())
        self.hinted += handed_down(names_of_hints(node), tables)
        name = self.next_name()
        if len(found[1]) != len(lowered.outputs):
            text = f"View or function '{'.'.join(parts)}' has more column names specified than columns defined."
            raise SqlError(4502, text, 16)
        outputs = [Output(column, o.expr) for column, o in zip(found[1], lowered.outputs, strict=True)]
        if alias is not None and alias.args.get("columns"):
            outputs = with_names(outputs, alias)
        scope.relations.append(Relation(alias.name if alias is not None else parts[-1], name, _under(name, outputs)))
        return f"({lowered.sql}) AS {name}"

    def computed(self, relation: Relation, columns: Sequence[tuple[int, Fragment]]) -> Relation:
        """The relation with its computed columns as the expressions that they are."""
        if not columns:
            return relation
        # A computed column is read by a permission of its own, whatever it is computed from.
        scope = Scope(None, [replace(relation, columns=[replace(o, refused=None) for o in relation.columns])])
        outputs = list(relation.columns)
        for position, fragment in columns:
            value = self.expression(parse_query(fragment.text).expressions[0], scope)
            kind = outputs[position].expr.type
            found = self.represented(value, kind)
            outputs[position] = replace(outputs[position], expr=self.column(f"({found.sql})", Column("", kind)))
        return Relation(relation.alias, relation.sql, outputs, relation.source, relation.aliased)

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
                self.column(_column_sql(name, source, index, column), column),
                errors.column_denied(column.name, source.name, source.database, source.schema)
                if column.name in source.denied
                else None,
            )
            for index, column in enumerate(source.columns)
        ]
        if alias is not None and alias.args.get("columns"):
            outputs = with_names(outputs, alias)
        shown = alias.name if alias is not None else source.name
        relation = Relation(shown, name, outputs, source, alias is not None)
        scope.relations.append(self.computed(relation, source.computed))
        return f"{table} AS {name}"

    def _function(self, node: exp.Table, scope: Scope) -> str:
        call = node.this
        parts = (*name_parts(node)[:-1], call.name)
        source = self.names.table_function(parts, len(call.expressions))
        if source is None:
            raise errors.invalid_object(".".join(parts))
        outer, self.parameters = self.parameters, []
        given = [exp.Null() if _is_default(argument) else argument for argument in call.expressions]
        if source.name.lower() not in _WITH_DEFAULTS and any(map(_is_default, call.expressions)):
            raise errors.unsupported(f"DEFAULT as an argument of {source.name}")
        arguments = tuple(self.expression(argument, Scope()) for argument in given)
        self._argument_parameters, self.parameters = tuple(self.parameters), outer
        return self._named_source(source, self.next_name(), node.args.get("alias"), scope, arguments)


def _check_derived(node: exp.Expr) -> None:
    """Refuses what stands behind a derived table or VALUES and is not known: left out, it would give other rows."""
    for part, value in node.args.items():
        if value and part not in _DERIVED_PARTS:
            raise errors.unsupported(f"{_SAID.get(part, part.strip('_').upper())} on a derived table")


def name_parts(node: exp.Table) -> tuple[str, ...]:
    """A table's name as it was written: those of variables with their @, those of temporary tables with their #."""
    catalog, schema = node.args.get("catalog"), node.args.get("db")
    if isinstance(node.this, exp.Dot):  # behind a server's name
        four = (catalog, schema, node.this.this, node.this.expression)
        return tuple(part.name if isinstance(part, exp.Expr) else "" for part in four)
    name = node.name
    if isinstance(node.this, exp.Parameter):
        name = f"@{name}"
    elif node.this.args.get("temporary"):
        name = f"#{name}"
    parts = [name]
    if schema is not None:
        parts.insert(0, schema.name if isinstance(schema, exp.Expr) else "")
    if catalog is not None:
        parts.insert(0, catalog.name)
    return tuple(parts)


def _is_default(argument: exp.Expr) -> bool:
    """The word DEFAULT in the place of an argument."""
    return (
        isinstance(argument, exp.Column)
        and len(argument.parts) == 1
        and not argument.this.quoted
        and argument.name.upper() == "DEFAULT"
    )


def with_names(outputs: Sequence[Output], alias: exp.Expr) -> list[Output]:
    """Outputs under the names of an alias's column list, if it has one."""
    columns = alias.args.get("columns") or []
    if columns and len(columns) != len(outputs):
        fewer = "fewer" if len(columns) < len(outputs) else "more"
        raise SqlError(8158, f"'{alias.name}' has {fewer} columns than were specified in the column list.", 16)
    return [replace(o, name=c.name) for c, o in zip(columns, outputs, strict=True)] if columns else list(outputs)


def _inner(expr: Expr) -> Expr:
    """A column of a derived table is a column, also one that COLLATE made."""
    return replace(expr, strength=IMPLICIT) if expr.strength == EXPLICIT else expr


def _under(name: str, outputs: Sequence[Output]) -> list[Output]:
    return [Output(o.name, _inner(o.expr).read_as(f"{name}.c{i}")) for i, o in enumerate(outputs)]


def _column_sql(name: str, source: Source, index: int, column: Column) -> str:
    return f'{name}."{column.name.replace(chr(34), chr(34) * 2)}"' if source.storage else f"{name}.c{index}"


def _nullable(relation: Relation) -> Relation:
    outputs = [replace(o, expr=o.expr.read_as(o.expr.sql, True)) for o in relation.columns]
    return Relation(relation.alias, relation.sql, outputs, relation.source, relation.aliased)


def _named_index(hint: exp.Expr) -> str | None:
    """The index that the hint INDEX (name) names; None for other hints and for more than one index."""
    if not isinstance(hint, exp.Anonymous) or hint.name.upper() != "INDEX" or len(hint.expressions) != 1:
        return None
    named = hint.expressions[0]
    return named.name if isinstance(named, exp.Column | exp.Identifier) else None
