"""Which scalar expressions over columns in a select list wait until a row is sent: SQLite calls Python at ten times the cost of a call in Python.

They become Python over the columns that SQLite returns in their place. Only where nothing else of the statement reads them: no grouping, and
no ORDER BY by a name or number of the list. Leaves to SQLite whatever is more than calls, joined bytes, ifnull, columns and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count

from sqlglot import exp

from emulators.sqlserver.tsql.planning.aggregates import aggregated
from emulators.sqlserver.tsql.values.calls import CALLS
from emulators.sqlserver.tsql.values.conversions.steps import step_of

_COLUMN = re.compile(r's\d+\.(?:"(?:[^"]|"")*"|c\d+)')
_BYTES = re.compile(r"x'((?:[0-9A-Fa-f]{2})*)'")
_NUMBER = re.compile(r"-?\d+(?![\d.])")
_CALL = re.compile(r"fn\((\d+), ")
_JOIN, _AS_BYTES = "CAST(", " AS BLOB)"


def allowed(node: exp.Select) -> bool:
    """Whether nothing in `node` reads the items of its select list."""
    if node.args.get("group") is not None or node.args.get("having") is not None or aggregated(node):
        return False
    order = node.args.get("order")
    terms = [item.this for item in order.expressions] if order is not None else []
    return all(isinstance(term, exp.Column) and len(term.parts) > 1 for term in terms)


def taken_off(items: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """What SQLite is to select for the `items` of a select list, and what Python makes of its row: of each item an expression over the values
    r[0], r[1] ... and the calls f0, f1 ... by their ids (values/calls.py), or g0, g1 ... for what they are for values that are not NULL. No
    expressions where nothing is left to Python."""
    columns: list[str] = []
    cells: list[str] = []
    left = False
    for sql in items:
        read = _Scalar(sql, columns)
        if read.source is None or not read.works:
            cells.append(f"r[{len(columns)}]")
            columns.append(sql)
        else:
            left = True
            cells.append(read.source)
            columns += read.columns
    return (columns, tuple(cells)) if left else (list(items), ())


class _Refused(Exception):
    """Not of the few forms that are read here."""


class _Scalar:
    """The Python of an item. `source` is None if it is more than is read here; `works`: more than a column; `columns`: which it reads."""

    def __init__(self, sql: str, before: Sequence[str]) -> None:
        self._sql, self._at, self._names, self._first = sql, 0, count(), len(before)
        self.columns: list[str] = []
        self.works = False
        self.source: str | None = None
        try:
            source, _ = self._expression()
            if self._at == len(sql) and self.columns:
                self.source = source
        except _Refused:
            self.columns = []

    def _expression(self) -> tuple[str, bool]:
        """Its Python, and whether that may be None."""
        sql, at = self._sql, self._at
        if found := _COLUMN.match(sql, at):
            self._at = found.end()
            if found[0] not in self.columns:
                self.columns.append(found[0])
            return f"r[{self._first + self.columns.index(found[0])}]", True
        if found := _BYTES.match(sql, at):
            self._at = found.end()
            return repr(bytes.fromhex(found[1])), False
        if found := _NUMBER.match(sql, at):
            self._at = found.end()
            return found[0], False
        if found := _CALL.match(sql, at):
            self._at, self.works = found.end(), True
            return self._called(found[1], self._listed(", ", ")"))
        if sql.startswith("ifnull(", at):
            self._at, self.works = at + len("ifnull("), True
            return self._first_of(*self._listed(", ", ")"))
        if sql.startswith(_JOIN, at):
            self._at, self.works = at + len(_JOIN), True
            return self._joined(self._listed(" || ", _AS_BYTES))
        raise _Refused

    def _listed(self, between: str, end: str) -> list[tuple[str, bool]]:
        found = [self._expression()]
        while not self._sql.startswith(end, self._at):
            if not self._sql.startswith(between, self._at):
                raise _Refused
            self._at += len(between)
            found.append(self._expression())
        self._at += len(end)
        return found

    def _called(self, number: str, values: Sequence[tuple[str, bool]]) -> tuple[str, bool]:
        if step_of(CALLS[int(number)]) is None:
            return f"f{number}({', '.join(source for source, _ in values)})", True
        ((source, nullable),) = values
        if not nullable:
            return f"g{number}({source})", True
        name = f"v{next(self._names)}"
        return f"(None if ({name} := {source}) is None else g{number}({name}))", True

    def _first_of(self, value: tuple[str, bool], other: tuple[str, bool]) -> tuple[str, bool]:
        name = f"v{next(self._names)}"
        return f"({other[0]} if ({name} := {value[0]}) is None else {name})", other[1]

    def _joined(self, parts: Sequence[tuple[str, bool]]) -> tuple[str, bool]:
        """Bytes; None if one of the parts is."""
        absent, shown = [], []
        for source, nullable in parts:
            if nullable:
                name = f"v{next(self._names)}"
                absent.append(f"({name} := {source}) is None")
                source = name
            shown.append(source)
        whole = f'b"".join(({", ".join(shown)},))' if len(shown) > 2 else f"({' + '.join(shown)})"
        return (f"(None if {' or '.join(absent)} else {whole})", True) if absent else (whole, False)
