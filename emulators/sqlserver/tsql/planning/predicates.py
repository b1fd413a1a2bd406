"""Lowers conditions: comparisons under SQL Server's collations and conversions, LIKE, IN, EXISTS, BETWEEN, three-valued logic."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlglot import exp

from emulators.sqlserver.results import SqlError, Value
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions.functions import text_of
from emulators.sqlserver.tsql.functions.patterns import like_patterns
from emulators.sqlserver.tsql.planning.constants import quoted
from emulators.sqlserver.tsql.planning.expressions import Expressions
from emulators.sqlserver.tsql.planning.plans import Expr
from emulators.sqlserver.tsql.planning.precedence import settled
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.reading.trees import spelled
from emulators.sqlserver.tsql.values.text_order import folding, order_of
from emulators.sqlserver.tsql.values.types import collated, collation, family, is_unicode, merged

_OPERATIONS = {
    "=": "equal to",
    "<>": "not equal to",
    ">": "greater than",
    ">=": "greater than or equal to",
    "<": "less than",
    "<=": "less than or equal to",
}
_WIDE = 200
"""Conditions in one row; more of them become groups of groups."""
_CONSTANT = re.compile(r"\?\d+|-?\d+(?:\.\d+)?|'(?:[^']|'')*'|x'[0-9A-Fa-f]*'")
"""A parameter or a literal of SQLite's, which has no affinity. Members of IN that are nothing else are looked up, not compared one by one."""
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}


class Predicates(Expressions):
    """Adds conditions to the scalar expressions."""

    def exists_subquery(self, node: exp.Expr, scope: Scope) -> str:
        raise NotImplementedError

    def list_subquery(self, node: exp.Expr, left: Expr, scope: Scope) -> tuple[Expr, str]:
        """(left operand, the subquery's SQL), both in their common type."""
        raise NotImplementedError

    def condition(self, node: exp.Expr, scope: Scope) -> str:
        if type(node) in _COMPARISONS:
            assert isinstance(node, exp.Binary)
            if isinstance(node.right, exp.Any | exp.All):
                raise errors.unsupported("ANY, SOME and ALL")
            left, right = self.expression(node.left, scope), self.expression(node.right, scope)
            return self.compared(_COMPARISONS[type(node)], left, right)
        handler = _HANDLERS.get(type(node))
        if handler is None:
            if isinstance(node, exp.Column | exp.Literal | exp.Anonymous | exp.Case | exp.National):
                raise SqlError(
                    4145, "An expression of non-boolean type specified in a context where a condition is expected.", 15
                )
            raise errors.unsupported(f"{spelled(node)} as a condition")
        return handler(self, node, scope)

    def compared(self, symbol: str, left: Expr, right: Expr) -> str:
        found = self._sides(symbol, left, right)
        if found is None:
            return "NULL"
        one, other, suffix = found
        return f"({one} {symbol} {other}{suffix})"

    def _sides(self, symbol: str, left: Expr, right: Expr) -> tuple[str, str, str] | None:
        """Both sides of a comparison, and its collation; None if one of them is NULL."""
        if left.is_null or right.is_null:
            return None
        kind = merged(left.type, right.type)
        if kind.name in ("text", "ntext", "image", "xml"):
            raise errors.incompatible(left.type.name, right.type.name, symbol)
        if family(left.type) == "binary" == family(right.type):
            left, right = self._padded(left, right)
            return left.sql, right.sql, ""
        kind = self.compared_type(kind, [left, right], _OPERATIONS[symbol])
        left, right = self.comparable(left, kind), self.comparable(right, kind)
        return left.sql, right.sql, f" COLLATE {collation(kind)}" if collation(kind) else ""

    def compared_type(self, kind: SqlType, values: Sequence[Expr], operation: str) -> SqlType:
        """`kind` with the collation by which `operation` compares the values. Raises 446, 468."""
        return (
            collated(kind, settled(self.together(values, operation), operation)) if family(kind) == "string" else kind
        )

    def comparable(self, value: Expr, kind: SqlType) -> Expr:
        """In a form that compares under the collation of `kind`; scale and length need not be equal."""
        source = value.type
        group = family(kind)
        if value.is_null or (family(source) == group and (group != "date" or source == kind)):
            return value
        if group == "exact" and family(source) == "int":
            if value.constant is not None:
                return Expr(quoted(str(value.constant)), kind)
            return Expr(f"CAST({value.sql} AS TEXT)", kind)
        if group == "float" and family(source) == "int":
            return value
        return self.cast(value, kind)

    def _padded(self, left: Expr, right: Expr) -> tuple[Expr, Expr]:
        """Binary values compare as if the shorter had zero bytes behind it."""
        sizes = [
            value.type.length if value.type.name == "binary" else 8 if value.type.length is None else None
            for value in (left, right)
        ]
        if sizes[0] is not None and sizes[0] == sizes[1]:
            return left, right
        for fixed, other, size in ((left, right, sizes[0]), (right, left, sizes[1])):
            if size is not None and other.type.length is not None and 0 < other.type.length <= size:
                if isinstance(other.constant, bytes):
                    wide = Expr(quoted(other.constant.ljust(size, b"\0")), fixed.type)
                else:
                    wide = self.cast(other, SqlType("binary", size))
                return (left, wide) if fixed is left else (wide, right)
        return self._trimmed(left), self._trimmed(right)

    def _trimmed(self, value: Expr) -> Expr:
        if isinstance(value.constant, bytes):
            return Expr(quoted(value.constant.rstrip(b"\0")), value.type)
        return self.call(("trimmed",), lambda: _without_zeros, [value], value.type)

    # -- the nodes

    def _and(self, node: exp.Expr, scope: Scope) -> str:
        assert isinstance(node, exp.Binary)
        return self._chain(node, exp.And, " AND ", scope)

    def _or(self, node: exp.Expr, scope: Scope) -> str:
        assert isinstance(node, exp.Binary)
        return self._chain(node, exp.Or, " OR ", scope)

    def _chain(self, node: exp.Binary, kind: type[exp.Binary], word: str, scope: Scope) -> str:
        """a OR b OR c ...: a tree that leans to the left, as high as the chain is long."""
        parts: list[exp.Expr] = []
        left: exp.Expr = node
        while isinstance(left, kind):
            parts.append(left.right)
            left = left.left
        return joined([self.condition(part, scope) for part in (left, *reversed(parts))], word)

    def _not(self, node: exp.Expr, scope: Scope) -> str:
        return f"(NOT {self.condition(node.this, scope)})"

    def _paren(self, node: exp.Expr, scope: Scope) -> str:
        return self.condition(node.this, scope)

    def _is(self, node: exp.Expr, scope: Scope) -> str:
        if not isinstance(node.expression, exp.Null):
            raise errors.syntax(node.expression.sql())
        return f"({self.expression(node.this, scope).sql} IS NULL)"

    def _between(self, node: exp.Expr, scope: Scope) -> str:
        if node.args.get("symmetric"):
            raise errors.syntax("SYMMETRIC")
        value = self.expression(node.this, scope)
        low, high = (self.expression(node.args[key], scope) for key in ("low", "high"))
        return f"({self.compared('>=', value, low)} AND {self.compared('<=', value, high)})"

    def _in(self, node: exp.Expr, scope: Scope) -> str:
        left = self.expression(node.this, scope)
        query = node.args.get("query")
        if query is not None:
            value, sql = self.list_subquery(query, left, scope)
            suffix = f" COLLATE {collation(value.type)}" if collation(value.type) else ""
            return f"({value.sql}{suffix} IN ({sql}))"
        if not node.expressions or node.args.get("unnest") or node.args.get("field"):
            raise errors.unsupported("this form of IN")
        tests, lists = list[str](), dict[tuple[str, str], list[str]]()
        for item in node.expressions:
            found = self._sides("=", left, self.expression(item, scope))
            if found is not None and _CONSTANT.fullmatch(found[1]):
                lists.setdefault((found[0], found[2]), []).append(found[1])
            else:
                tests.append("NULL" if found is None else f"({found[0]} = {found[1]}{found[2]})")
        tests += [f"({value}{suffix} IN ({', '.join(among)}))" for (value, suffix), among in lists.items()]
        return joined(tests, " OR ")

    def _exists(self, node: exp.Expr, scope: Scope) -> str:
        return f"EXISTS ({self.exists_subquery(node.this, scope)})"

    def _like(self, node: exp.Expr, scope: Scope, escape: str = "") -> str:
        value, pattern = self.expression(node.this, scope), self.expression(node.expression, scope)
        name = settled(self.together([value, pattern], "like"), "like")
        types = (collated(value.type, name), collated(pattern.type, name))
        test = self.call(("like", types, escape), lambda: _liker(types, escape), [value, pattern], SqlType("bit"))
        return f"(NOT {test.sql})" if node.args.get("negate") else test.sql

    def _escaped(self, node: exp.Expr, scope: Scope) -> str:
        if not isinstance(node.this, exp.Like) or len(node.expression.name) != 1:
            raise errors.unsupported("this form of ESCAPE")
        return self._like(node.this, scope, node.expression.name)


def _without_zeros(value: Value) -> Value:
    return value.rstrip(b"\0") if isinstance(value, bytes) else value


def _liker(types: tuple[SqlType, SqlType], escape: str) -> Callable[..., Value]:
    read, read_pattern = (text_of(kind) for kind in types)
    order = order_of(types[0].collation, any(is_unicode(kind) for kind in types))
    fold, compiled = folding(order), like_patterns(escape, order)

    def run(value: Value, pattern: Value) -> Value:
        if value is None or pattern is None:
            return None
        return int(compiled(read_pattern(pattern)).fullmatch(fold(read(value))) is not None)

    return run


def joined(tests: Sequence[str], word: str) -> str:
    """`tests` under AND or OR, as a tree that stays far below the height at which SQLite gives up (1,000)."""
    if len(tests) <= _WIDE:
        return f"({word.join(tests)})"
    width = -(-len(tests) // _WIDE)
    return joined([joined(tests[at : at + width], word) for at in range(0, len(tests), width)], word)


Handler = Callable[[Predicates, exp.Expr, Scope], str]
_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.And: Predicates._and,
    exp.Or: Predicates._or,
    exp.Not: Predicates._not,
    exp.Paren: Predicates._paren,
    exp.Is: Predicates._is,
    exp.Between: Predicates._between,
    exp.In: Predicates._in,
    exp.Exists: Predicates._exists,
    exp.Like: Predicates._like,
    exp.Escape: Predicates._escaped,
}
