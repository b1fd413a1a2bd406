"""The table hints under which a query reads its tables, and the locks that they ask for.

Source: https://learn.microsoft.com/sql/t-sql/queries/hints-transact-sql-table : lock hints on a view go to all tables that it reads. Those on a
common table expression do the same: https://learn.microsoft.com/sql/t-sql/queries/with-common-table-expression-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.planning.plans import KeptLock, StoredTable
from emulators.sqlserver.tsql.reading.dml.hints import DIRTY, READPAST

Hinted = tuple[StoredTable, frozenset[str]]
"""A table, once for each place that reads it, and the names of its hints."""
_SAME = {"READUNCOMMITTED": "NOLOCK", "SERIALIZABLE": "HOLDLOCK"}
_GROUPS = (
    frozenset(("PAGLOCK", "NOLOCK", "READCOMMITTEDLOCK", "ROWLOCK", "TABLOCK", "TABLOCKX")),
    frozenset(("HOLDLOCK", "NOLOCK", "READCOMMITTED", "REPEATABLEREAD")),
)
"""A table has no more than one of a group."""
_FOR_UPDATE = frozenset(("UPDLOCK", "XLOCK"))


def names_of_hints(node: exp.Table) -> frozenset[str]:
    clauses = node.args.get("hints")
    return frozenset(hint.name.upper() for clause in clauses for hint in clause.expressions) if clauses else frozenset()


def check_hints_of_table(hints: frozenset[str]) -> None:
    if READPAST in hints:
        raise errors.unsupported(f"table hint {READPAST}")


def handed_down(hints: frozenset[str], tables: Iterable[Hinted]) -> Iterator[Hinted]:
    """The tables of a view or a common table expression that is read under these hints. Raises 50001 for hints that contradict each other."""
    outer = frozenset(_SAME.get(hint, hint) for hint in hints)
    for table, given in tables:
        inner = frozenset(_SAME.get(hint, hint) for hint in given)
        check_hints_of_table(outer)
        if _against(outer, inner):
            text = f"the hints {', '.join(sorted(outer))} on a view or WITH that reads a table with {', '.join(sorted(inner))}"
            raise errors.unsupported(text)
        yield table, outer | inner


def _against(outer: frozenset[str], inner: frozenset[str]) -> bool:
    for group in _GROUPS:
        if outer & group and inner & group and outer & group != inner & group:
            return True
    return any("NOLOCK" in one and bool(other & _FOR_UPDATE) for one, other in ((outer, inner), (inner, outer)))


def reads(tables: Iterable[Hinted]) -> frozenset[StoredTable]:
    """Those whose locks a reader heeds."""
    return frozenset(table for table, hints in tables if not hints & DIRTY)


def nowait(tables: Iterable[Hinted]) -> frozenset[StoredTable]:
    return frozenset(table for table, hints in tables if "NOWAIT" in hints)


def keeps(tables: Iterable[Hinted]) -> frozenset[tuple[StoredTable, KeptLock]]:
    return frozenset((table, lock) for table, hints in tables for lock in _kept(hints))


def _kept(hints: frozenset[str]) -> Iterator[KeptLock]:
    """The locks that these hints keep to the end of a transaction."""
    for_update, ranges = bool(hints & {"UPDLOCK", "XLOCK"}), bool(hints & {"HOLDLOCK", "SERIALIZABLE"})
    if "TABLOCKX" in hints or ("TABLOCK" in hints and for_update):
        yield "EXCLUSIVE"
        return
    if for_update:
        yield "UPDATE"
    if "TABLOCK" in hints and (ranges or "REPEATABLEREAD" in hints):
        yield "TABLE"
    elif ranges:
        yield "RANGE"
    elif "REPEATABLEREAD" in hints:
        yield "ROWS"
