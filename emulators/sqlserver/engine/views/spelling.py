"""Expressions of defaults, checks, computed columns and filters as the catalog views show them: not as they were written.

SQL Server keeps such an expression as a tree and writes it again: numbers in parentheses, names in brackets, functions in lower case,
IN and BETWEEN as comparisons, CAST as CONVERT, and one pair of parentheses around it all. An operand gets parentheses unless its
operator holds tighter than the one around it. An expression with a part whose spelling there is not known stays as it was written, in
one pair of parentheses.
Source: https://learn.microsoft.com/sql/relational-databases/system-catalog-views/sys-default-constraints-transact-sql (no page lists the
rules; they are those that scripts of real databases show, and the definitions of a real server in the tests of msduck)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from sqlglot import exp

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.reading.trees import parse_query
from emulators.sqlserver.tsql.values.datetimes import PARTS

_ATOM, _FACTOR, _TERM, _COMPARED, _NOT, _AND, _OR = range(7)
"""How tightly an expression holds together, the tightest first: https://learn.microsoft.com/sql/t-sql/language-elements/operator-precedence"""
_OPERAND = _FACTOR
"""What stands bare in a comparison."""
_Spelled = tuple[str, int]
_BINARY: dict[type[exp.Expr], tuple[str, int]] = {
    exp.Mul: ("*", _FACTOR),
    exp.Div: ("/", _FACTOR),
    exp.Mod: ("%", _FACTOR),
    exp.Add: ("+", _TERM),
    exp.Sub: ("-", _TERM),
    exp.BitwiseAnd: ("&", _TERM),
    exp.BitwiseOr: ("|", _TERM),
    exp.BitwiseXor: ("^", _TERM),
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
_OTHER_NAMES = {"integer": "int", "dec": "decimal"}
_LARGEST_INT = 2**31 - 1
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
        assert isinstance(node, exp.Binary)
        if level >= _AND:  # a chain of them is one
            return f"{self._inside(node.left, level)}{symbol}{self._inside(node.right, level - 1)}", level
        most = min(level - 1, _OPERAND)
        text = f"{self._inside(node.left, most)}{symbol}{self._inside(node.right, most)}"
        return (f"NOT {text}", _NOT) if node.args.get("negate") else (text, level)

    def _literal(self, node: exp.Expr) -> _Spelled:
        if node.is_string:
            return "'" + node.name.replace("'", "''") + "'", _ATOM
        return f"({_number(node.name)})", _ATOM

    def _national(self, node: exp.Expr) -> _Spelled:
        return "N'" + node.name.replace("'", "''") + "'", _ATOM

    def _bytes(self, node: exp.Expr) -> _Spelled:
        return f"0x{node.name.upper()}", _ATOM

    def _null(self, node: exp.Expr) -> _Spelled:
        return "NULL", _ATOM

    def _negative(self, node: exp.Expr) -> _Spelled:
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            number = _number(inner.name)
            return (f"(-{number})" if number.strip("0.") else f"({number})"), _ATOM
        text, level = self.spell(inner)
        if level == _FACTOR:
            raise _Unknown
        return f" -{text if level == _ATOM else f'({text})'}", _TERM

    def _complement(self, node: exp.Expr) -> _Spelled:
        return f"~{self._inside(node.this, _ATOM)}", _ATOM

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
        return f"{self._inside(node.this, _OPERAND)} IS NULL", _COMPARED

    def _not(self, node: exp.Expr) -> _Spelled:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return f"{self._inside(inner.this, _OPERAND)} IS NOT NULL", _COMPARED
        return f"NOT {self._inside(inner, _COMPARED)}", _NOT

    def _between(self, node: exp.Expr) -> _Spelled:
        value = self._inside(node.this, _OPERAND)
        low, high = self._inside(node.args["low"], _OPERAND), self._inside(node.args["high"], _OPERAND)
        return f"{value}>={low} AND {value}<={high}", _AND

    def _in(self, node: exp.Expr) -> _Spelled:
        """The last member first."""
        if not self._lists or not node.expressions or node.args.get("query") is not None:
            raise _Unknown
        value = self._inside(node.this, _OPERAND)
        members = [f"{value}={self._inside(member, _OPERAND)}" for member in reversed(node.expressions)]
        return " OR ".join(members), _OR if len(members) > 1 else _COMPARED

    def _escape(self, node: exp.Expr) -> _Spelled:
        pattern, sign = node.this.unnest(), node.expression
        if not isinstance(pattern, exp.Like):
            raise _Unknown
        text, level = self._binary(pattern)
        return f"{text} escape {self.spell(sign)[0]} ", level

    def _collate(self, node: exp.Expr) -> _Spelled:
        if isinstance(node.this, exp.Binary):  # it is about the last operand alone
            raise _Unknown
        return f"({self.spell(node.this)[0]}) collate {node.expression.name}", _ATOM

    def _case(self, node: exp.Expr) -> _Spelled:
        subject, otherwise = node.args.get("this"), node.args.get("default")
        words = ["case", *([self.spell(subject)[0]] if subject is not None else [])]
        for branch in node.args["ifs"]:
            words += ["when", self.spell(branch.this)[0], "then", self.spell(branch.args["true"])[0]]
        words += ["else", self.spell(otherwise)[0]] if otherwise is not None else [""]
        return " ".join((*words, "end")), _ATOM

    def _call(self, node: exp.Expr) -> _Spelled:
        name, arguments = node.name.upper(), node.expressions
        if name in ("CAST", "TRY_CAST", "CONVERT", "TRY_CONVERT"):
            return self._conversion(name, arguments), _ATOM
        if name == "IIF" and len(arguments) == 3:
            test, then, otherwise = (self.spell(argument)[0] for argument in arguments)
            return f"case when {test} then {then} else {otherwise} end", _ATOM
        if name in _PARTS and len(arguments) == 1:
            return f"datepart({_PARTS[name]},{self.spell(arguments[0])[0]})", _ATOM
        shown = [self.spell(argument)[0] for argument in arguments]
        if name in _DATED:
            part = PARTS.get(arguments[0].name.lower())
            if part is None:
                raise _Unknown
            shown[0] = part
        return f"{name.lower()}({','.join(shown)})", _ATOM

    def _conversion(self, name: str, arguments: list[exp.Expr]) -> str:
        kind, values = _type(arguments[1].name), [self.spell(value)[0] for value in (arguments[0], *arguments[2:])]
        if not name.startswith("TRY_"):
            return f"CONVERT({kind},{','.join(values)})"
        if len(values) > 1:
            raise _Unknown
        return f"TRY_CAST({values[0]} AS {kind})"


def _number(text: str) -> str:
    """Whole numbers beyond int are decimals, and end with the point; floats have 17 digits."""
    try:
        if "e" in text.lower():
            digits, _, exponent = f"{float(text):.16e}".partition("e")
            return f"{digits}e{int(exponent):+04d}"
        whole, point, places = text.partition(".")
        if not point and int(whole) > _LARGEST_INT:
            point = "."
        return f"{int(whole or 0)}{point}{places}"
    except ValueError:
        raise _Unknown from None


def _type(text: str) -> str:
    """decimal(10, 2) as [decimal](10,2)."""
    found = _TYPE.fullmatch(text)
    if found is None:
        raise _Unknown
    size = "".join((found[2] or "").split())
    name = found[1].lower()
    return f"[{_OTHER_NAMES.get(name, name)}]{size.lower()}"


_HANDLERS: dict[type[exp.Expr], Callable[[_Speller, exp.Expr], _Spelled]] = {
    exp.Literal: _Speller._literal,
    exp.National: _Speller._national,
    exp.HexString: _Speller._bytes,
    exp.Null: _Speller._null,
    exp.Neg: _Speller._negative,
    exp.Column: _Speller._column,
    exp.BitwiseNot: _Speller._complement,
    exp.Collate: _Speller._collate,
    exp.Escape: _Speller._escape,
    exp.Is: _Speller._is,
    exp.Not: _Speller._not,
    exp.Between: _Speller._between,
    exp.In: _Speller._in,
    exp.Case: _Speller._case,
    exp.Anonymous: _Speller._call,
}
