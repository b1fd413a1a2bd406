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
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*_conjuncts(node.left), *_conjuncts(node.right)]
    return [node]


def _disjuncts(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.Or):
        return [*_disjuncts(node.left), *_disjuncts(node.right)]
    return [node]


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
