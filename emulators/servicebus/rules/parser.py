"""Filter and action texts to their trees, by recursive descent.

Names of scopes, functions, keywords and parameters compare without regard to case. Refuses, naming the position and what was
expected there: what the grammar has not, parameters without a value, more than 32 statements in an action, and nesting
deeper than any rule of 1,024 characters needs.
Sources: learn.microsoft.com "Subscription Rule SQL Filter Syntax", "Subscription Rule SQL Action Syntax", "Service Bus quotas".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from emulators.servicebus.amqp.values import Value

from .description import PropertyValue
from .errors import InvalidRule
from .lexer import MAX_LONG, Kind, Token, position, words
from .syntax import (
    And,
    Chain,
    Comparison,
    Constant,
    Exists,
    Expression,
    In,
    IsNull,
    Like,
    NewId,
    Not,
    Or,
    Predicate,
    Property,
    PropertyNamed,
    Remove,
    Set,
    Statement,
    Unary,
)
from .values import as_value

MAX_DEPTH: Final = 32
"""Parentheses, NOT and signs inside one another; the documentation names no number."""
MAX_STATEMENTS: Final = 32
""""Maximum number of expressions per rule action" ("Service Bus quotas")."""

_COMPARISONS: Final = ("=", "<>", ">", ">=", "<", "<=")
_SCOPES: Final = {"sys": True, "user": False}

Node = Expression | Predicate


def parse_filter(text: str, parameters: Mapping[str, PropertyValue]) -> Predicate:
    """Raises InvalidRule."""
    parser = _Parser(text, parameters)
    at = parser.token.at
    found = parser.predicate(parser.disjunction(), at)
    parser.end()
    return found


def parse_action(text: str, parameters: Mapping[str, PropertyValue]) -> tuple[Statement, ...]:
    """Raises InvalidRule."""
    parser = _Parser(text, parameters)
    statements = []
    while True:
        statements.append(parser.statement())
        separated = parser.take_sign(";", ",")
        if parser.token.kind is Kind.END and (separated is None or separated == ";"):
            break
    if len(statements) > MAX_STATEMENTS:
        raise InvalidRule(f"an action has at most {MAX_STATEMENTS} statements, this one has {len(statements)}")
    return tuple(statements)


class _Parser:
    """One text; `token` is the word to be looked at."""

    def __init__(self, text: str, parameters: Mapping[str, PropertyValue]) -> None:
        self._words = words(text)
        self._index = 0
        self._depth = 0
        self._parameters: dict[str, Value] = {}
        for name, value in parameters.items():
            self._parameters[name.lower() if name.startswith("@") else f"@{name.lower()}"] = as_value(value)
        self.token = self._words[0]

    # -- words

    def _advance(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self._index += 1
            self.token = self._words[self._index]
        return token

    def take_sign(self, *signs: str) -> str | None:
        """The sign that is next, if it is one of these."""
        if self.token.kind is Kind.SIGN and self.token.text in signs:
            return self._advance().text
        return None

    def _take_keyword(self, *keywords: str) -> str | None:
        if self.token.kind is Kind.KEYWORD and self.token.text in keywords:
            return self._advance().text
        return None

    def _need_sign(self, sign: str) -> None:
        if self.take_sign(sign) is None:
            self._expected(f"'{sign}'")

    def _need_keyword(self, *keywords: str) -> str:
        found = self._take_keyword(*keywords)
        return found if found is not None else self._expected(" or ".join(keywords))

    def _expected(self, what: str) -> NoReturn:
        token = self.token
        found = "the expression ends" if token.kind is Kind.END else f"found {token.kind.value} {token.text!r}"
        raise InvalidRule(f"{position(token.at)}: expected {what}, but {found}")

    def end(self) -> None:
        """Raises InvalidRule when words are left."""
        if self.token.kind is not Kind.END:
            self._expected("an operator or the end of the expression")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidRule(f"{position(self.token.at)}: the expression is nested more than {MAX_DEPTH} deep")

    # -- kinds

    def predicate(self, node: Node, at: int) -> Predicate:
        """The node, which must be a condition."""
        if isinstance(node, Expression):
            raise InvalidRule(f"{position(at)}: expected a condition, but found a mere value")
        return node

    def _value(self, node: Node, at: int) -> Expression:
        if isinstance(node, Predicate):
            raise InvalidRule(f"{position(at)}: expected a value, but found a condition")
        return node

    # -- predicates

    def disjunction(self) -> Node:
        """Operands of OR."""
        at = self.token.at
        node = self._conjunction()
        operands: list[Predicate] = []
        while self._take_keyword("OR"):
            operands = operands or [self.predicate(node, at)]
            at = self.token.at
            operands.append(self.predicate(self._conjunction(), at))
        return Or(tuple(operands)) if operands else node

    def _conjunction(self) -> Node:
        at = self.token.at
        node = self._negation()
        operands: list[Predicate] = []
        while self._take_keyword("AND"):
            operands = operands or [self.predicate(node, at)]
            at = self.token.at
            operands.append(self.predicate(self._negation(), at))
        return And(tuple(operands)) if operands else node

    def _negation(self) -> Node:
        if not self._take_keyword("NOT"):
            return self._condition()
        self._deeper()
        at = self.token.at
        node = Not(self.predicate(self._negation(), at))
        self._depth -= 1
        return node

    def _condition(self) -> Node:
        if self._take_keyword("EXISTS"):
            self._need_sign("(")
            exists = Exists(self._property())
            self._need_sign(")")
            return exists
        at = self.token.at
        left = self._sum()
        sign = self.take_sign(*_COMPARISONS)
        if sign is not None:
            return Comparison(self._value(left, at), sign, self._sum_value())
        if self._take_keyword("IS"):
            negated = self._take_keyword("NOT") is not None
            self._need_keyword("NULL")
            if not isinstance(left, Property):
                raise InvalidRule(f"{position(at)}: expected a property before IS NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._take_keyword("NOT") is not None
        if negated or (self.token.kind is Kind.KEYWORD and self.token.text in ("IN", "LIKE")):
            value = self._value(left, at)
            test = self._in(value) if self._need_keyword("IN", "LIKE") == "IN" else self._like(value)
            return Not(test) if negated else test
        return left

    def _in(self, left: Expression) -> Predicate:
        self._need_sign("(")
        items = [self._sum_value()]
        while self.take_sign(","):
            items.append(self._sum_value())
        self._need_sign(")")
        return In(left, tuple(items))

    def _like(self, left: Expression) -> Predicate:
        pattern = self._sum_value()
        return Like(left, pattern, self._sum_value() if self._take_keyword("ESCAPE") else None)

    # -- expressions

    def _sum_value(self) -> Expression:
        at = self.token.at
        return self._value(self._sum(), at)

    def _sum(self) -> Node:
        at = self.token.at
        first = self._product()
        rest = []
        while (sign := self.take_sign("+", "-")) is not None:
            operand_at = self.token.at
            rest.append((sign, self._value(self._product(), operand_at)))
        return Chain(self._value(first, at), tuple(rest)) if rest else first

    def _product(self) -> Node:
        at = self.token.at
        first = self._signed()
        rest = []
        while (sign := self.take_sign("*", "/", "%")) is not None:
            operand_at = self.token.at
            rest.append((sign, self._value(self._signed(), operand_at)))
        return Chain(self._value(first, at), tuple(rest)) if rest else first

    def _signed(self) -> Node:
        sign = self.take_sign("+", "-")
        if sign is None:
            return self._primary()
        if sign == "-" and self.token.kind is Kind.NUMBER and self.token.number == MAX_LONG + 1:
            self._advance()  # the smallest long has no positive counterpart
            return Constant(-MAX_LONG - 1)
        self._deeper()
        at = self.token.at
        node = Unary(sign, self._value(self._signed(), at))
        self._depth -= 1
        return node

    def _primary(self) -> Node:
        token = self.token
        if token.kind is Kind.STRING:
            return Constant(self._advance().text)
        if token.kind is Kind.NUMBER:
            if isinstance(token.number, int) and token.number > MAX_LONG:
                raise InvalidRule(f"{position(token.at)}: {token.text} is out of the range of a 64-bit integer")
            return Constant(self._advance().number)
        if token.kind is Kind.PARAMETER:
            return self._parameter()
        if token.kind in (Kind.NAME, Kind.QUOTED_NAME):
            return self._named()
        keyword = self._take_keyword("TRUE", "FALSE", "NULL")
        if keyword is not None:
            return Constant(None if keyword == "NULL" else keyword == "TRUE")
        if self.take_sign("("):
            self._deeper()
            node = self.disjunction()
            self._need_sign(")")
            self._depth -= 1
            return node
        return self._expected("a value, a property or '('")

    def _parameter(self) -> Expression:
        token = self._advance()
        if token.text.lower() not in self._parameters:
            raise InvalidRule(f"{position(token.at)}: the parameter {token.text} has no value")
        return Constant(self._parameters[token.text.lower()])

    def _named(self) -> Expression:
        following = self._words[self._index + 1]
        if self.token.kind is Kind.NAME and following.kind is Kind.SIGN and following.text == "(":
            return self._function()
        return self._property()

    def _function(self) -> Expression:
        name = self._advance()
        self._need_sign("(")
        if name.text.lower() == "newid":
            self._need_sign(")")
            return NewId()
        if name.text.lower() not in ("property", "p"):
            raise InvalidRule(
                f"{position(name.at)}: expected the function newid, property or p, but found {name.text!r}"
            )
        self._deeper()
        argument = self._sum_value()
        self._depth -= 1
        self._need_sign(")")
        return PropertyNamed(argument)

    def _property(self) -> Property:
        name = self._name()
        if not self.take_sign("."):
            return Property(name.text, system=False)
        if name.kind is not Kind.NAME or name.text.lower() not in _SCOPES:
            raise InvalidRule(
                f"{position(name.at)}: expected the scope sys or user before '.', but found {name.text!r}"
            )
        return Property(self._name().text, system=_SCOPES[name.text.lower()])

    def _name(self) -> Token:
        if self.token.kind not in (Kind.NAME, Kind.QUOTED_NAME):
            self._expected("the name of a property")
        return self._advance()

    # -- statements

    def statement(self) -> Statement:
        """One statement of an action."""
        if self._need_keyword("SET", "REMOVE") == "REMOVE":
            return Remove(self._property())
        target = self._property()
        self._need_sign("=")
        return Set(target, self._sum_value())
