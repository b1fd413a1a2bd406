"""Tokens of a T-SQL batch. Knows how characters group, not what statements mean.

Source: https://learn.microsoft.com/sql/relational-databases/databases/database-identifiers and the page "Constants".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql.errors import syntax

WORD, QUOTED, STRING, NSTRING, HEX, NUMBER, MONEY, VARIABLE, OP, END = range(10)

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<nstring>[Nn]'[^']*(?:''[^']*)*')
  | (?P<string>'[^']*(?:''[^']*)*')
  | (?P<quoted>\[[^\]]*(?:\]\][^\]]*)*\]|"[^"]*(?:""[^"]*)*")
  | (?P<hex>0[xX][0-9A-Fa-f]*)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<money>\$\d+(?:\.\d*)?|\$\.\d+)
  | (?P<variable>@@?[\w@\#$]+)
  | (?P<word>[^\W\d][\w@\#$]*|\#\#?[\w@\#$]+|\$action\b)
  | (?P<op><=|>=|<>|!=|!<|!>|\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[-+*/%=<>(),.;&|^~{}:!?])
    """,
    re.VERBOSE | re.IGNORECASE,
)
_KINDS = {
    "word": WORD,
    "quoted": QUOTED,
    "string": STRING,
    "nstring": NSTRING,
    "hex": HEX,
    "number": NUMBER,
    "money": MONEY,
    "variable": VARIABLE,
    "op": OP,
}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """`key`: the text in upper case for words, the text itself for operators, "" for everything that is no keyword."""

    kind: int
    text: str
    key: str
    start: int
    end: int


def tokenize(sql: str) -> list[Token]:
    """The batch's tokens, closed by one END token. Raises SqlError 102, 105 and 113."""
    tokens: list[Token] = []
    position, size = 0, len(sql)
    match_at, token = _TOKEN.match, tuple.__new__
    while position < size:
        match = match_at(sql, position)
        if match is None:
            raise _unreadable(sql, position)
        group = match.lastgroup or ""
        end = match.end()
        if group == "comment":
            end = _comment_end(sql, end)
        elif group != "space":
            text = match.group()
            key = text.upper() if group == "word" else text if group == "op" else ""
            tokens.append(token(Token, (_KINDS[group], text, key, position, end)))  # Token(...) takes a call more
        position = end
    tokens.append(Token(END, "", "", size, size))
    return tokens


def _comment_end(sql: str, position: int) -> int:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(sql, position):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SqlError(113, "Missing end comment mark '*/'.", 15)


def _unreadable(sql: str, position: int) -> SqlError:
    rest = sql[position:]
    if rest[0] in "'\"" or rest[:2] in ("N'", "n'"):
        return SqlError(105, f"Unclosed quotation mark after the character string '{rest[1:81]}'.", 15)
    return syntax(rest[:1])


def identifier(token: Token) -> str:
    """The name that a WORD or QUOTED token stands for."""
    if token.kind == QUOTED:
        closing = token.text[-1]
        return token.text[1:-1].replace(closing * 2, closing)
    return token.text


def string_value(token: Token) -> str:
    """The text of a STRING or NSTRING token."""
    start = 2 if token.kind == NSTRING else 1
    return token.text[start:-1].replace("''", "'")
