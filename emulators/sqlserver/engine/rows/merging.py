"""Runs MERGE: finds the rows of each kind by its query, then deletes, updates and inserts, each kind of change as one.

All rows are found before any is changed, as in one statement. Source: merge.py of tsql/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from emulators.sqlserver.engine.rows.changes import Row, TableWriter
from emulators.sqlserver.engine.rows.output import Change
from emulators.sqlserver.engine.rows.writing import Writing
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.results import Event, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.plans import Plan
from emulators.sqlserver.tsql.reading import statements as st

_TWICE = (
    "The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target row matches more "
    "than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target table multiple times. Refine the ON "
    "clause to ensure a target row matches at most one source row, or use the GROUP BY clause to group the source rows."
)


@dataclass(slots=True)
class _Work:
    """What a MERGE is going to do."""

    deleted: list[tuple[int, Row]] = field(default_factory=list)
    updated: list[tuple[int, Row]] = field(default_factory=list)
    after: list[Row] = field(default_factory=list)
    changed: dict[int, None] = field(default_factory=dict)
    inserted: list[Row] = field(default_factory=list)
    further: dict[str, list[Row]] = field(default_factory=lambda: {"DELETE": [], "UPDATE": [], "INSERT": []})
    outside: Sequence[SqlType] = ()


class Merging:
    """MERGE of one session."""

    def __init__(self, writing: Writing) -> None:
        self.session = writing.session
        self._writing = writing

    def merge(self, statement: st.Merge) -> Iterator[Event]:
        writing = self._writing
        database, entry = writing.entry(statement.table)
        stored, plans = [database.storage(entry.table)], self._plans(statement)
        with self.session.writing(database, stored, "TABLE" if statement.whole else "CHANGE", plans) as link:
            _, entry = writing.entry(statement.table)
            writer = TableWriter(database, entry, link, "MERGE")
            work = self._found(statement, writer, link)
            self._apply(writer, work)
            writing.check(writer)
            events = writing.output(statement.output, entry, _changes(work), work.outside, "MERGE")
        yield from events
        yield writing.done(len(work.deleted) + len(work.updated) + len(work.inserted))

    def _plans(self, statement: st.Merge) -> list[Plan]:
        """What it reads."""
        runner, target = self.session.runner, statement.target
        queries = [query for query in (statement.matched, statement.orphaned) if query is not None]
        plans = [runner.plan_rows(query, target, True)[0] for query in queries]
        return plans if statement.unmatched is None else [*plans, runner.plan(statement.unmatched)]

    def _found(self, statement: st.Merge, writer: TableWriter, link: Link) -> _Work:
        work = _Work()
        for kind, query in (("matched", statement.matched), ("orphaned", statement.orphaned)):
            if query is not None:
                plan, _ = self.session.runner.plan_rows(query, statement.target, True)
                rows = self._writing.all_rows(link, self.session.runner.execute(query, plan, link))
                self._touch(statement, kind, writer, plan, rows, work)
        numbers = [number for number, _ in (*work.deleted, *work.updated)]
        if len(set(numbers)) != len(numbers):
            raise SqlError(8672, _TWICE, 16)
        if statement.unmatched is not None:
            plan = self.session.runner.plan(statement.unmatched)
            source = self.session.runner.link(plan)
            found = self._writing.all_rows(source, self.session.runner.execute(statement.unmatched, plan, source))
            self._insert(statement, writer, plan, found, work)
        return work

    def _touch(
        self, statement: st.Merge, kind: str, writer: TableWriter, plan: Plan, rows: Sequence[Row], work: _Work
    ) -> None:
        width = len(writer.entry.table.columns)
        clauses = [clause for clause in statement.clauses if clause.kind == kind]
        behind = 1 + sum(len(clause.columns) for clause in clauses)
        work.outside = [column.type for column in plan.columns[behind:]] or work.outside
        setters = [self._setter(clause, writer, plan) for clause in clauses]
        for row in rows:
            if row[width + 1] is None:
                continue
            clause = clauses[int(str(row[width + 1]))]
            before = (int(str(row[0])), tuple(row[1 : width + 1]))
            work.further[clause.action].append(tuple(row[width + 1 + behind :]))
            if clause.action == "DELETE":
                work.deleted.append(before)
                continue
            changed, run = setters[clauses.index(clause)]
            work.changed.update(dict.fromkeys(changed))
            work.updated.append(before)
            work.after.append(run(before[1], tuple(row[width + 1 :])))

    def _setter(
        self, clause: st.MergeClause, writer: TableWriter, plan: Plan
    ) -> tuple[list[int], Callable[[Row, Row], Row]]:
        """The positions that a clause's SET changes, and what makes the row after it of the row before and the query's items."""
        changed = self._writing.set_columns([name for name, _ in clause.columns], writer)
        defaults = self._writing.set_defaults(clause.columns, changed, writer.entry)
        kinds = [column.type for column in plan.columns[clause.first : clause.first + len(changed)]]
        steps = [writer.coerce(at, kind) for at, kind in zip(changed, kinds, strict=True)]

        def run(before: Row, items: Row) -> Row:
            given = items[clause.first : clause.first + len(changed)]
            cells = list(before)
            for at, value in zip(changed, writer.converted([given], steps, changed)[0], strict=True):
                cells[at] = defaults.get(at, value)
            return tuple(cells)

        return changed, run

    def _insert(self, statement: st.Merge, writer: TableWriter, plan: Plan, rows: Sequence[Row], work: _Work) -> None:
        (clause,) = [clause for clause in statement.clauses if clause.kind == "unmatched"]
        behind = 1 + len(clause.columns)
        work.outside = [column.type for column in plan.columns[behind:]] or work.outside
        names = [name for name, _ in clause.columns] if clause.columns and clause.columns[0][0] else None
        builder = self._writing.builder(writer, names)
        if not clause.columns:
            builder.targets = []
        builder.check_count(len(clause.columns), names is not None)
        steps = [writer.coerce(at, c.type) for at, c in zip(builder.targets, plan.columns[1:behind], strict=True)]
        chosen = [row for row in rows if row[0] is not None]
        values = writer.converted([row[1:behind] for row in chosen], steps, builder.targets)
        omitted = [at for at, (_, how) in zip(builder.targets, clause.columns, strict=True) if how == "DEFAULT"]
        work.inserted = builder.finished(values, omitted)
        work.further["INSERT"] = [tuple(row[behind:]) for row in chosen]

    def _apply(self, writer: TableWriter, work: _Work) -> None:
        if work.deleted:
            writer.delete(work.deleted)
        if work.updated:
            work.after = writer.update(work.updated, work.after, list(work.changed))
        if work.inserted:
            writer.insert(work.inserted)
            self._writing.remember_identity(writer, work.inserted)


def _changes(work: _Work) -> list[Change]:
    found: list[Change] = []
    for (_, row), further in zip(work.deleted, work.further["DELETE"], strict=True):
        found.append((None, row, "DELETE", further))
    for (_, row), after, further in zip(work.updated, work.after, work.further["UPDATE"], strict=True):
        found.append((after, row, "UPDATE", further))
    for row, further in zip(work.inserted, work.further["INSERT"], strict=True):
        found.append((row, None, "INSERT", further))
    return found
