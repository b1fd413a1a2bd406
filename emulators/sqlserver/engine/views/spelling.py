"""Expressions of defaults, checks, computed columns and filters as the catalog views show them: not as they were written.

SQL Server keeps such an expression as a tree and writes it again: numbers in parentheses, names in brackets, functions in lower case,
IN and BETWEEN as comparisons, CAST as CONVERT, and one pair of parentheses around it all. An expression with a part whose spelling
there is not known stays as it was written, in one pair of parentheses.
Source: https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-default-constraints-transact-sql (no page lists the
rules; they are those that scripts of real databases show)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.reading.trees import parse_query

_ATOM, _UNARY, _FACTOR, _TERM, _COMPARED, _NOT, _AND, _OR = range(8)
"""How tightly an expression holds together, the tightest first: https://learn.microsoft.com/sql/t-sql/language-elements/operator-precedence"""
_Spelled = tuple[str, int]
_BINARY: dict[type[exp.Expr], tuple[str, int]] = {
    exp.Mul: ("*", _FACTOR),
    exp.Div: ("/", _FACTOR),
    exp.Mod: ("%", _FACTOR),
    exp.Add: ("+", _TERM),
    exp.Sub: ("-", _TERM),
    exp.EQ: ("=", _COMPARED),
    exp.NEQ: ("<>", _COMPARED),
    exp.GT: (">", _COMPARED),
    exp.GTE: (">=", _COMPARED),
    exp.LT: ("<", _COMPARED),
    exp.LTE: ("<=", _COMPARED),
    exp.Like: (" like ", _COMPARED),
    exp.And: (" AND ", _AND),
    exp.Or: (" OR ", _OR),
}
_WORDS = {  # "": not known
    "CURRENT_TIMESTAMP": "getdate()",
    "CURRENT_USER": "user_name()",
    "SESSION_USER": "",
    "SYSTEM_USER": "suser_sname()",
    "USER": "user_name()",
}
_PARTS = {"YEAR": "year", "MONTH": "month", "DAY": "day"}
_DATED = frozenset(("DATEADD", "DATEDIFF", "DATEPART", "DATENAME"))
_PART_NAMES = frozenset(
    ["year", "quarter", "month", "dayofyear", "day", "week", "weekday", "hour", "minute", "second", "millisecond"]
)
_TYPE = re.compile(r"\s*\[?(\w+)\]?\s*(\(\s*(?:\w+)(?:\s*,\s*\d+)?\s*\))?\s*")


class _Unknown(Exception):
    """A part whose spelling is not known."""


@lru_cache(maxsize=2048)
def spelled(text: str, *, lists: bool = True) -> str:
    """`text`: an expression or a condition. `lists`: whether IN becomes comparisons, as it does everywhere but in a filter."""
    try:
        return f"({_Speller(lists).spell(parse_query(f'SELECT {text}').expressions[0])[0]})"
    except (_Unknown, SqlError, RecursionError, IndexError):
        return text if _is_enclosed(text) else f"({text})"


def _is_enclosed(text: str) -> bool:
    """Whether the first parenthesis is closed by the last one. Parentheses in a literal may mislead it, which shows a pair more."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and at < len(text) - 1:
            return False
    return text.startswith("(")


class _Speller:
    def __init__(self, lists: bool) -> None:
        self._lists = lists

    def spell(self, node: exp.Expr) -> _Spelled:
        """The text, and how tightly it holds together. Raises _Unknown."""
        node = node.unnest()
        if type(node) in _BINARY:
            return self._binary(node)
        handler = _HANDLERS.get(type(node))
        if handler is None or node.comments:
            raise _Unknown
        return handler(self, node)

    def _inside(self, node: exp.Expr, most: int) -> str:
        text, level = self.spell(node)
        return text if level <= most else f"({text})"

    def _binary(self, node: exp.Expr) -> _Spelled:
        symbol, level = _BINARY[type(node)]
        if node.args.get("negate") or not isinstance(node, exp.Binary):
            raise _Unknown
        left = self._inside(node.left, level)
        right = self._inside(node.right, level if level >= _AND else level - 1)
        return f"{left}{symbol}{right}", level

    def _literal(self, node: exp.Expr) -> _Spelled:
        if node.is_string:
            return "'" + node.name.replace("'", "''") + "'", _ATOM
        if not node.name.replace(".", "").isdigit():
            raise _Unknown
        return f"({node.name})", _ATOM

    def _national(self, node: exp.Expr) -> _Spelled:
        return "N'" + node.name.replace("'", "''") + "'", _ATOM

    def _bytes(self, node: exp.Expr) -> _Spelled:
        return f"0x{node.name.upper()}", _ATOM

    def _null(self, node: exp.Expr) -> _Spelled:
        return "NULL", _ATOM

    def _negative(self, node: exp.Expr) -> _Spelled:
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return f"(-{inner.name})", _ATOM
        return f"-{self._inside(inner, _ATOM)}", _UNARY

    def _column(self, node: exp.Expr) -> _Spelled:
        assert isinstance(node, exp.Column)
        plain = not node.this.args.get("quoted")
        word = _WORDS.get(node.name.upper()) if plain else None
        if len(node.parts) != 1 or word == "" or (plain and node.name.startswith("$")):
            raise _Unknown
        if word:
            return word, _ATOM
        return "[" + node.name.replace("]", "]]") + "]", _ATOM

    def _is(self, node: exp.Expr) -> _Spelled:
        if not isinstance(node.expression, exp.Null):
            raise _Unknown
        return f"{self._inside(node.this, _TERM)} IS NULL", _COMPARED

    def _not(self, node: exp.Expr) -> _Spelled:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return f"{self._inside(inner.this, _TERM)} IS NOT NULL", _COMPARED
        if isinstance(inner, exp.In | exp.Between):
            raise _Unknown
        return f"NOT {self._inside(inner, _COMPARED)}", _NOT

    def _between(self, node: exp.Expr) -> _Spelled:
        value = self._inside(node.this, _TERM)
        low, high = self._inside(node.args["low"], _TERM), self._inside(node.args["high"], _TERM)
        return f"{value}>={low} AND {value}<={high}", _AND

    def _in(self, node: exp.Expr) -> _Spelled:
        """The last member first."""
        if not self._lists or not node.expressions or node.args.get("query") is not None:
            raise _Unknown
        value = self._inside(node.this, _TERM)
        members = [f"{value}={self._inside(member, _TERM)}" for member in reversed(node.expressions)]
        return " OR ".join(members), _OR if len(members) > 1 else _COMPARED

    def _case(self, node: exp.Expr) -> _Spelled:
        subject, otherwise = node.args.get("this"), node.args.get("default")
        words = ["case", *([self.spell(subject)[0]] if subject is not None else [])]
        for branch in node.args["ifs"]:
            words += ["when", self.spell(branch.this)[0], "then", self.spell(branch.args["true"])[0]]
        if otherwise is not None:
            words += ["else", self.spell(otherwise)[0]]
        return " ".join((*words, "end")), _ATOM

    def _call(self, node: exp.Expr) -> _Spelled:
        name, arguments = node.name.upper(), node.expressions
        if name in ("CAST", "TRY_CAST"):
            kind, value = _type(arguments[1].name), self.spell(arguments[0])[0]
            return f"{name.replace('CAST', 'CONVERT')}({kind},{value})", _ATOM
        if name in ("CONVERT", "TRY_CONVERT"):
            kind = _type((arguments[1] if isinstance(arguments[1], exp.Literal) else arguments[0]).name)
            rest = [arguments[0], *arguments[2:]]
            return f"{name}({kind},{','.join(self.spell(value)[0] for value in rest)})", _ATOM
        if name in _PARTS and len(arguments) == 1:
            return f"datepart({_PARTS[name]},{self.spell(arguments[0])[0]})", _ATOM
        shown = [self.spell(argument)[0] for argument in arguments]
        if name in _DATED:
            part = arguments[0].name.lower()
            if part not in _PART_NAMES:
                raise _Unknown
            shown[0] = part
        return f"{name.lower()}({','.join(shown)})", _ATOM


def _type(text: str) -> str:
    """decimal(10, 2) as [decimal](10,2)."""
    found = _TYPE.fullmatch(text)
    if found is None:
        raise _Unknown
    size = "".join((found[2] or "").split())
    return f"[{found[1].lower()}]{size.lower()}"


_HANDLERS: dict[type[exp.Expr], Callable[[_Speller, exp.Expr], _Spelled]] = {
    exp.Literal: _Speller._literal,
    exp.National: _Speller._national,
    exp.HexString: _Speller._bytes,
    exp.Null: _Speller._null,
    exp.Neg: _Speller._negative,
    exp.Column: _Speller._column,
    exp.Is: _Speller._is,
    exp.Not: _Speller._not,
    exp.Between: _Speller._between,
    exp.In: _Speller._in,
    exp.Case: _Speller._case,
    exp.Anonymous: _Speller._call,
}
