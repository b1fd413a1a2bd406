"""Which columns a name may mean inside a query: the relations of FROM, and those of the queries around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import ambiguous_column, invalid_column, unbound_identifier
from emulators.sqlserver.tsql.planning.hinted import Hinted
from emulators.sqlserver.tsql.planning.plans import Expr, Source
from emulators.sqlserver.tsql.values.text_order import Fold


@dataclass(frozen=True, slots=True)
class Output:
    """One column that a query or relation yields: its T-SQL name and the SQLite expression that reads it."""

    name: str
    expr: Expr
    refused: SqlError | None = None
    """What to raise where the column is named: the login may not read it."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A source under its alias in a FROM; `alias` is the T-SQL name, `sql` SQLite's."""

    alias: str
    sql: str
    columns: Sequence[Output]
    source: Source | None = None
    aliased: bool = True
    base: str = ""
    """Of a common table expression over one table, `source`: its column with the numbers of that table's rows."""

    def named(self, qualifier: Sequence[str], fold: Fold) -> bool:
        """Whether a qualifier ("ct", or "dbo.t", without alias) means this relation; `fold`: how the database compares names."""
        wanted = [fold(part) for part in qualifier]
        if len(wanted) == 1:
            return wanted[0] == fold(self.alias)
        if self.source is None or self.aliased:
            return False
        if len(wanted) == 3:
            wanted[0] = qualifier[0].lower()
        full = [self.source.database.lower(), fold(self.source.schema), fold(self.source.name)]
        return full[-len(wanted) :] == wanted


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A common table expression: SQLite's name and what it yields; over one table also that table and the column of row numbers."""

    sql: str
    outputs: Sequence[Output]
    source: Source | None = None
    base: str = ""
    tables: Sequence[Hinted] = ()
    """What it reads."""


@dataclass(slots=True)
class Scope:
    """`parent`: the query around a subquery. `ctes`: common table expressions by folded name."""

    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    ctes: dict[str, CommonTable] = field(default_factory=dict)
    grouped: Sequence[exp.Expr] | None = None
    """The GROUP BY expressions of a grouped query."""

    def cte(self, name: str) -> CommonTable | None:
        """`name`: folded."""
        found = self.ctes.get(name)
        if found is None and self.parent is not None:
            return self.parent.cte(name)
        return found

    def within(self) -> bool:
        """Whether it is a subquery's."""
        around = self.parent
        return around is not None and (bool(around.relations) or around.within())

    def column(self, name: str, qualifier: Sequence[str], fold: Fold) -> Expr:
        """Raises 207, 209 and 4104."""
        scope: Scope | None = self
        qualified = False
        while scope is not None:
            found = [relation for relation in scope.relations if not qualifier or relation.named(qualifier, fold)]
            qualified = qualified or (bool(qualifier) and bool(found))
            expr = _only(name, found, fold)
            if expr is not None:
                return expr
            scope = scope.parent
        if qualifier and not qualified:
            raise unbound_identifier(".".join([*qualifier, name]))
        raise invalid_column(name)


def _only(name: str, relations: Sequence[Relation], fold: Fold) -> Expr | None:
    wanted = fold(name)
    found = [output for relation in relations for output in relation.columns if fold(output.name) == wanted]
    if len(found) > 1:
        raise ambiguous_column(name)
    return readable(found[0]) if found else None


def readable(output: Output) -> Expr:
    """Raises 230."""
    if output.refused is not None:
        raise output.refused
    return output.expr
