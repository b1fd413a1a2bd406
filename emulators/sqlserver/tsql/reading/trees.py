"""Syntax trees of queries, by sqlglot's T-SQL parser with its own ideas about functions and types taken out.

sqlglot turns functions and types into its neutral forms and loses what T-SQL said (TZOFFSET, real, ntext, LEN); here every
call stays a call by name, and CAST and CONVERT carry the type's text. What sqlglot accepts beyond T-SQL is refused later, where
the tree is lowered: only known nodes pass.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.tsql import TSQLParser

from emulators.sqlserver.tsql.errors import keyword_syntax, syntax, too_deep, too_many_items, unsupported
from emulators.sqlserver.tsql.reading.reader import RESERVED
from emulators.sqlserver.tsql.reading.refused_syntax import refused_query


def _type_text(parser: TSQLParser, *stops: TokenType) -> exp.Expr:
    """The tokens of a data type as one string, up to a stop outside parentheses."""
    depth, words = 0, []
    while parser._curr:
        kind = parser._curr.token_type
        if depth == 0 and kind in stops:
            break
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        words.append(parser._curr.text)
        parser._advance()
    return exp.Literal.string(" ".join(words))


def _cast(name: str, parser: TSQLParser) -> exp.Expr:
    value = parser._parse_disjunction()
    if not parser._match(TokenType.ALIAS):
        parser.raise_error("Expected AS")
    return exp.Anonymous(this=name, expressions=[value, _type_text(parser, TokenType.R_PAREN)])


def _convert(name: str, parser: TSQLParser) -> exp.Expr:
    target = _type_text(parser, TokenType.COMMA, TokenType.R_PAREN)
    parser._match(TokenType.COMMA)
    value = parser._parse_disjunction()
    style = [parser._parse_disjunction()] if parser._match(TokenType.COMMA) else []
    return exp.Anonymous(this=name, expressions=[value, target, *style])


def _trim(parser: TSQLParser) -> exp.Expr:
    arguments = parser._parse_csv(parser._parse_disjunction)
    where = len(arguments) == 1 and arguments[0].name.upper() in ("LEADING", "TRAILING", "BOTH")
    behind = parser._curr.token_type if parser._curr else TokenType.R_PAREN
    if behind == TokenType.FROM or (where and behind != TokenType.R_PAREN):
        raise unsupported("TRIM (characters FROM ...)")
    return exp.Anonymous(this="TRIM", expressions=arguments)


def _parsed(name: str, parser: TSQLParser) -> exp.Expr:
    """PARSE and its kin, which are refused by name, whatever they hold."""
    _type_text(parser, TokenType.R_PAREN)
    return exp.Anonymous(this=name, expressions=[])


class _PlainParser(TSQLParser):
    FUNCTIONS = {}  # noqa: RUF012 - sqlglot's own form
    NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        "CAST": lambda self: _cast("CAST", self),
        "TRY_CAST": lambda self: _cast("TRY_CAST", self),
        "CONVERT": lambda self: _convert("CONVERT", self),
        "TRY_CONVERT": lambda self: _convert("TRY_CONVERT", self),
        "PARSE": lambda self: _parsed("PARSE", self),
        "TRY_PARSE": lambda self: _parsed("TRY_PARSE", self),
        "TRIM": _trim,
    }


class _Plain(TSQL):
    Parser = _PlainParser


_dialect = _Plain()
_NOT_LESS = {("!", TokenType.LT): TokenType.GTE, ("!", TokenType.GT): TokenType.LTE}
_MOST_ITEMS = 4096
"""https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server (columns per SELECT statement)"""


def _tokens(text: str) -> list[Token]:
    """With 0x as the empty binary constant, and not as a name, and with !< and !>."""
    tokens = _dialect.tokenize(text)
    if "!<" in text or "!>" in text:
        for at in reversed(range(len(tokens) - 1)):
            found = _NOT_LESS.get((text[tokens[at].start : tokens[at].end + 1], tokens[at + 1].token_type))
            if found is not None and tokens[at].end + 1 == tokens[at + 1].start:
                first = tokens[at]
                tokens[at : at + 2] = [Token(found, "", first.line, first.col, first.start, tokens[at + 1].end)]
    if "0x" in text or "0X" in text:
        for at, token in enumerate(tokens):
            if token.token_type == TokenType.IDENTIFIER and text[token.start : token.end + 1] in ("0x", "0X"):
                tokens[at] = Token(TokenType.HEX_STRING, "", token.line, token.col, token.start, token.end)
    return tokens


@lru_cache(maxsize=2048)
def parse_query(text: str) -> exp.Expr:
    """The tree of one SELECT. Never change it: it is cached. Raises SqlError 102 and 156, 1056."""
    try:
        trees = _dialect.parser().parse(_tokens(text), text)
    except ParseError as error:
        refusal = refused_query(text)
        if refusal is not None:
            raise refusal from None
        near = str(error.errors[0].get("highlight") or "") if error.errors else ""
        raise (keyword_syntax(near) if near.upper() in RESERVED else syntax(near)) from None
    except RecursionError:
        raise too_deep() from None
    except TokenError:
        raise syntax(text[-20:]) from None
    if len(trees) != 1 or trees[0] is None:
        raise syntax(";")
    tree = trees[0]
    assert isinstance(tree, exp.Expr)
    for select in tree.find_all(exp.Select):
        if not select.expressions:
            raise keyword_syntax("FROM")
        if len(select.expressions) > _MOST_ITEMS:
            raise too_many_items(_MOST_ITEMS)
    return tree


_SPELLED: dict[type[exp.Expr], str] = {
    exp.Any: "ANY or SOME",
    exp.Cast: "a cast without CAST",
    exp.Dot: "a method call",
    exp.DPipe: "the operator ||",
    exp.ILike: "ILIKE",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.Placeholder: "a parameter without a name",
    exp.RegexpLike: "REGEXP_LIKE",
    exp.Table: "a join in brackets",
    exp.Tuple: "a list in brackets",
}
_WORD_BEGINS = re.compile("(?<=[a-z])(?=[A-Z])")


def spelled(node: exp.Expr) -> str:
    """What a node is in the words of T-SQL: NEXT VALUE FOR, not NextValueFor."""
    if isinstance(node, exp.Predicate | exp.Connector | exp.Not) and type(node) not in _SPELLED:
        return "a condition in the place of a value"
    return _SPELLED.get(type(node)) or _WORD_BEGINS.sub(" ", type(node).__name__).upper()


def described(node: exp.Expr) -> str:
    """A node for the error that refuses it: what it is, and how its text begins."""
    text = node.sql(dialect="tsql")
    return f"{spelled(node)} ({text[:80]})"
