"""Which collation an expression has, and which one several together: explicit before implicit before the database's default.

Source: https://learn.microsoft.com/sql/t-sql/statements/collation-precedence-transact-sql
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulators.sqlserver.collation import SERVER_DEFAULT
from emulators.sqlserver.results import SqlError

COERCIBLE, IMPLICIT, EXPLICIT, UNRESOLVED = range(4)
"""Coercion labels: of literals and variables, of columns, of COLLATE, and of what was made of columns that differ (No-collation)."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two implicit collations that `operator` brought together."""

    right: str
    left: str
    operator: str


@dataclass(frozen=True, slots=True)
class Label:
    """`name`: of the collation, "" for the server's default."""

    strength: int
    name: str
    conflict: Conflict | None = None


def combined(labels: Iterable[Label], default: str, operator: str) -> Label:
    """The label of what `operator` makes of text with these. Raises 468 where two COLLATE clauses disagree."""
    found = Label(COERCIBLE, default)
    for label in labels:
        found = _pair(found, label, operator)
    return found


def _pair(left: Label, right: Label, operator: str) -> Label:
    if EXPLICIT in (left.strength, right.strength):
        if left.strength == right.strength and left.name != right.name:
            raise conflict(right.name, left.name, operator)
        return left if left.strength == EXPLICIT else right
    if UNRESOLVED in (left.strength, right.strength):
        return left if left.strength == UNRESOLVED else right
    if left.strength == right.strength == IMPLICIT and left.name != right.name:
        return Label(UNRESOLVED, left.name, Conflict(right.name, left.name, operator))
    return left if left.strength >= right.strength else right


def conflict(right: str, left: str, operation: str) -> SqlError:
    text = (
        f'Cannot resolve the collation conflict between "{right or SERVER_DEFAULT}" and "{left or SERVER_DEFAULT}" in the '
        f"{operation} operation."
    )
    return SqlError(468, text, 16, 9)


def settled(label: Label, operation: str) -> str:
    """The collation by which `operation` compares. Raises 446, 468."""
    found = label.conflict
    if found is None:
        return label.name
    if found.operator == operation:
        raise conflict(found.right, found.left, operation)
    text = (
        f'Cannot resolve collation conflict between "{found.right or SERVER_DEFAULT}" and "{found.left or SERVER_DEFAULT}" in '
        f"{found.operator} operator for {operation} operation."
    )
    raise SqlError(446, text, 16, 9)


def unresolved(found: Conflict, unicode: bool, type_name: str, place: str) -> SqlError:
    """What a query may not yield or order by: 451 for Unicode, 457 for varchar, whose code page would be unknown."""
    between = f'"{found.right or SERVER_DEFAULT}" and "{found.left or SERVER_DEFAULT}" in {found.operator} operator'
    if unicode:
        return SqlError(451, f"Cannot resolve collation conflict between {between} occurring in {place}.", 16)
    text = (
        f"Implicit conversion of {type_name} value to {type_name} cannot be performed because the collation of the value is "
        f"unresolved due to a collation conflict between {between}."
    )
    return SqlError(457, text, 16)
