"""Bounds that an OR implies, so that SQLite's index can begin where a page of a change table begins.

`a > 5 OR (a = 5 AND b > 2)` implies `a >= 5`: SQLite does not see that, and would read every earlier row again for every page.
"""

from __future__ import annotations

from sqlglot import exp

_LOWER = (exp.GT, exp.GTE, exp.EQ)


def implied(node: exp.Expr) -> list[exp.Expr]:
    """Conditions that hold wherever `node` is true, found in its conjuncts of the form col > x OR (col = x AND ...)."""
    found = []
    for conjunct in _conjuncts(node):
        if isinstance(conjunct, exp.Or):
            bound = _lower_bound(conjunct)
            if bound is not None:
                found.append(bound)
    return found


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    return _members(node, exp.And)


def _disjuncts(node: exp.Expr) -> list[exp.Expr]:
    return _members(node, exp.Or)


def _members(node: exp.Expr, kind: type[exp.Binary]) -> list[exp.Expr]:
    """From left to right. A chain of thousands is as high as it is long."""
    found: list[exp.Expr] = []
    open_ = [node]
    while open_:
        member = open_.pop().unnest()
        if isinstance(member, kind):
            open_ += (member.right, member.left)
        else:
            found.append(member)
    return found


def _lower_bound(node: exp.Expr) -> exp.Expr | None:
    branches = [_bounds_of(branch) for branch in _disjuncts(node)]
    for column, value in branches[0]:
        if all(any(other == column and known == value for other, known in branch) for branch in branches[1:]):
            return exp.GTE(this=column, expression=value)
    return None


def _bounds_of(branch: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    return [
        (conjunct.left, conjunct.right)
        for conjunct in _conjuncts(branch)
        if isinstance(conjunct, _LOWER) and isinstance(conjunct.left, exp.Column)
    ]
