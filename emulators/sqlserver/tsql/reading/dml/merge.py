"""MERGE, written as up to three queries: rows that match, source rows without a target row, target rows without a source row.

Source: https://learn.microsoft.com/sql/t-sql/statements/merge-transact-sql ; MERGE TOP is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import unsupported, unterminated_merge
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.dml.clauses import (
    ASSIGNMENTS,
    column_list,
    outside_columns,
    parse_output,
    refuse_common_table,
)
from emulators.sqlserver.tsql.reading.dml.hints import hints_of_target, whole_table
from emulators.sqlserver.tsql.reading.fragments import Fragment, fragment, joined
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.starts import STARTS
from emulators.sqlserver.tsql.reading.tokens import QUOTED, WORD, Token

_ENDS = ("WHEN", "OUTPUT", "OPTION", ";")


class _Clause:
    """One WHEN: `columns` as (name, "" or "DEFAULT"), `values` as (tokens, what a compound operator puts before them)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.action = ""
        self.condition: Sequence[Token] = ()
        self.columns: list[tuple[str, str]] = []
        self.values: list[tuple[Sequence[Token], str]] = []


class _Query:
    """A SELECT put together from pieces of the batch, its lifted literals numbered through."""

    def __init__(self, reader: Reader, prefix: Fragment) -> None:
        self.reader = reader
        self.parts = [prefix]

    def text(self, text: str) -> None:
        self.parts.append(Fragment(text))

    def tokens(self, tokens: Sequence[Token]) -> None:
        lifted = sum(len(part.lifted) for part in self.parts)
        self.parts.append(fragment(self.reader.sql, tokens, " ", True, lifted))

    def target(self, table: Sequence[Token], alias: Token | None) -> None:
        """The target without its hints, which may stand between its name and its alias."""
        self.tokens(table)
        if alias is not None:
            self.text(f" AS {alias.text}")

    def finished(self) -> Fragment:
        return joined(self.parts)


def parse_merge(reader: Reader, prefix: Fragment) -> st.Statement:
    line = reader.line()
    reader.expect("MERGE")
    if reader.at("TOP"):
        raise unsupported("MERGE TOP")
    reader.accept("INTO")
    begin = reader.position
    table = reader.qualified()
    refuse_common_table(prefix, table, "MERGE")
    written = reader.tokens[begin : reader.position]
    hints = hints_of_target(reader)
    alias = _alias(reader)
    hints |= hints_of_target(reader)
    reader.expect("USING")
    source, condition = _source_and_condition(reader)
    clauses = []
    while reader.accept("WHEN"):
        clauses.append(_when(reader))
    if not clauses:
        raise reader.unexpected()
    output = parse_output(reader, ("OPTION", ";"))
    if reader.accept("OPTION"):
        reader.skip_parentheses()
    if not reader.at(";"):
        raise unterminated_merge()
    outside = outside_columns(output)
    queries = _queries(reader, prefix, (written, alias), (source, condition), clauses, outside)
    name = (alias.text.strip('[]"'),) if alias is not None else table
    return st.Merge(line, table, name, *queries, _planned(clauses), output, whole_table(hints))


def _alias(reader: Reader) -> Token | None:
    if reader.accept("AS") or (reader.here.kind in (WORD, QUOTED) and reader.here.key not in ("USING", "WITH")):
        return reader.advance()
    return None


def _source_and_condition(reader: Reader) -> tuple[Sequence[Token], Sequence[Token]]:
    """USING source ON condition; the source may hold joins with an ON of their own."""
    tokens = reader.until(("WHEN", ";"))
    depth, split = 0, -1
    for index, token in enumerate(tokens):
        depth += (token.key == "(") - (token.key == ")")
        if token.key == "ON" and depth == 0:
            split = index
    if split < 1 or split == len(tokens) - 1:
        raise reader.unexpected()
    return tokens[:split], tokens[split + 1 :]


def _when(reader: Reader) -> _Clause:
    if reader.accept("MATCHED"):
        clause = _Clause("matched")
    elif reader.accept("NOT", "MATCHED", "BY", "SOURCE"):
        clause = _Clause("orphaned")
    else:
        reader.expect("NOT", "MATCHED")
        if reader.accept("BY"):
            reader.expect("TARGET")
        clause = _Clause("unmatched")
    if reader.accept("AND"):
        clause.condition = reader.until(("THEN", ";"))
    reader.expect("THEN")
    clause.action = reader.advance().key
    if clause.action not in (("INSERT",) if clause.kind == "unmatched" else ("UPDATE", "DELETE")):
        raise reader.unexpected(reader.peek(-1))
    if clause.action == "UPDATE":
        _assignments(reader, clause)
    elif clause.action == "INSERT":
        _values(reader, clause)
    return clause


def _assignments(reader: Reader, clause: _Clause) -> None:
    reader.expect("SET")
    while True:
        begin = reader.position
        name = reader.qualified()[-1]
        written = reader.text(reader.tokens[begin : reader.position])
        operator = reader.advance()
        if operator.key not in ASSIGNMENTS:
            raise reader.unexpected(operator)
        if operator.key == "=" and reader.accept("DEFAULT"):
            clause.columns.append((name, "DEFAULT"))
            clause.values.append(((), ""))
        else:
            clause.columns.append((name, ""))
            clause.values.append((_cell(reader), "" if operator.key == "=" else f"{written} {operator.key[0]} "))
        if not reader.accept(","):
            return


def _cell(reader: Reader) -> Sequence[Token]:
    tokens = reader.until((",", *_ENDS), STARTS)
    if not tokens:
        raise reader.unexpected()
    return tokens


def _values(reader: Reader, clause: _Clause) -> None:
    names = column_list(reader) if reader.at("(") else None
    if reader.accept("DEFAULT", "VALUES"):
        return
    reader.expect("VALUES", "(")
    marks = []
    while True:
        if reader.accept("DEFAULT"):
            marks.append("DEFAULT")
            clause.values.append(((), ""))
        else:
            marks.append("")
            clause.values.append((_cell(reader), ""))
        if not reader.accept(","):
            break
    reader.expect(")")
    if names is not None and len(names) != len(marks):
        more, number = ("more", 109) if len(names) > len(marks) else ("fewer", 110)
        text = (
            f"There are {more} columns in the INSERT statement than values specified in the VALUES clause. The number of "
            "values in the VALUES clause must match the number of columns specified in the INSERT statement."
        )
        raise SqlError(number, text, 15)
    clause.columns = list(zip(names or [""] * len(marks), marks, strict=True))


def _queries(
    reader: Reader,
    prefix: Fragment,
    target: tuple[Sequence[Token], Token | None],
    parts: tuple[Sequence[Token], Sequence[Token]],
    clauses: Sequence[_Clause],
    outside: Sequence[str],
) -> tuple[Fragment | None, Fragment | None, Fragment | None]:
    """For matched, unmatched and orphaned rows: which clause applies, then every clause's values, then what OUTPUT asks for."""
    source, condition = parts
    made: dict[str, Fragment | None] = {}
    for kind in ("matched", "unmatched", "orphaned"):
        chosen = [clause for clause in clauses if clause.kind == kind]
        if not chosen:
            made[kind] = None
            continue
        query = _Query(reader, prefix)
        query.text("SELECT ")
        _choice(query, chosen)
        for clause in chosen:
            for tokens, operator in clause.values:
                _value(query, clause, tokens, operator)
        # A source column has no value for a target row without source row.
        query.text("".join(f", {'NULL' if kind == 'orphaned' else item}" for item in outside) + " FROM ")
        between = " JOIN " if kind == "matched" else " WHERE NOT EXISTS (SELECT 1 FROM "
        if kind == "orphaned":
            query.target(*target)
            query.text(between)
            query.tokens(source)
        else:
            query.tokens(source)
            query.text(between)
            query.target(*target)
        query.text(" ON (" if kind == "matched" else " WHERE (")
        query.tokens(condition)
        query.text(")" if kind == "matched" else "))")
        made[kind] = query.finished()
    return made["matched"], made["unmatched"], made["orphaned"]


def _choice(query: _Query, chosen: Sequence[_Clause]) -> None:
    query.text("CASE ")
    for number, clause in enumerate(chosen):
        query.text("WHEN ")
        if clause.condition:
            query.tokens(clause.condition)
        else:
            query.text("1 = 1")
        query.text(f" THEN {number} ")
    query.text("END")


def _value(query: _Query, clause: _Clause, tokens: Sequence[Token], operator: str) -> None:
    """A clause's value, not to be computed for rows that its condition leaves out."""
    query.text(", ")
    if not tokens:
        query.text("NULL")
        return
    if clause.condition:
        query.text("CASE WHEN ")
        query.tokens(clause.condition)
        query.text(" THEN ")
    query.text(f"{operator}(")
    query.tokens(tokens)
    query.text(")")
    if clause.condition:
        query.text(" END")


def _planned(clauses: Sequence[_Clause]) -> tuple[st.MergeClause, ...]:
    """The clauses with the position of their first value behind the choice, counted in their own query."""
    following = {"matched": 1, "unmatched": 1, "orphaned": 1}
    planned = []
    for clause in clauses:
        planned.append(st.MergeClause(clause.kind, clause.action, tuple(clause.columns), following[clause.kind]))
        following[clause.kind] += len(clause.values)
    return tuple(planned)
