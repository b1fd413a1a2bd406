"""Filters and actions as functions of a message's properties.

Conditions have three values: true, false and unknown (None). NULL, and a user property that is not there, are unknown in
every operator but IS NULL and EXISTS; a system property that no message has is a FilterError. AND and OR look at their
operands from left to right and stop when the result is certain.
Sources: learn.microsoft.com "Subscription Rule SQL Filter Syntax" ("Property evaluation semantics") and "Subscription Rule
SQL Action Syntax" ("Considerations").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import uuid4

from emulators.servicebus.amqp.values import Value
from emulators.servicebus.properties import SETTABLE, SYSTEM_NAMES, MessageProperties

from .errors import FilterError, InvalidRule
from .like import like
from .operators import calculate, compare, negated, unchanged
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
    Set,
    Statement,
    Unary,
)
from .values import as_text, fitted, from_amqp, to_amqp

Truth = bool | None
Condition = Callable[[MessageProperties], Truth]
Term = Callable[[MessageProperties], Value]
Change = Callable[[MessageProperties], None]


def condition(node: Predicate) -> Condition:
    """A predicate as a function; the function raises FilterError."""
    match node:
        case And(operands):
            return _all([condition(operand) for operand in operands])
        case Or(operands):
            return _any([condition(operand) for operand in operands])
        case Not(operand):
            return _not(condition(operand))
        case Comparison(left, sign, right):
            return _comparison(term(left), sign, term(right))
        case In(left, items):
            return _in(term(left), [term(item) for item in items])
        case Like(left, pattern, escape):
            return _like(term(left), term(pattern), None if escape is None else term(escape))
        case IsNull(property):
            read = term(property)
            return lambda message: read(message) is None
        case Exists(property):
            return _exists(property)


def _all(operands: list[Condition]) -> Condition:
    def conjunction(message: MessageProperties) -> Truth:
        result: Truth = True
        for operand in operands:
            truth = operand(message)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return conjunction


def _any(operands: Iterable[Condition]) -> Condition:
    def disjunction(message: MessageProperties) -> Truth:
        result: Truth = False
        for operand in operands:
            truth = operand(message)
            if truth is True:
                return True
            if truth is None:
                result = None
        return result

    return disjunction


def _not(operand: Condition) -> Condition:
    def negation(message: MessageProperties) -> Truth:
        truth = operand(message)
        return None if truth is None else not truth

    return negation


def _comparison(left: Term, sign: str, right: Term) -> Condition:
    def comparison(message: MessageProperties) -> Truth:
        first, second = left(message), right(message)
        return None if first is None or second is None else compare(first, sign, second)

    return comparison


def _in(left: Term, items: list[Term]) -> Condition:
    return _any([_comparison(left, "=", item) for item in items])


def _like(left: Term, pattern: Term, escape: Term | None) -> Condition:
    def test(message: MessageProperties) -> Truth:
        operands = [left(message), pattern(message)]
        if escape is not None:
            operands.append(escape(message))
        if any(operand is None for operand in operands):
            return None
        if not all(isinstance(operand, str) for operand in operands):
            raise FilterError("the operands of LIKE must be strings")
        return like(operands[1], operands[2] if escape is not None else None)(operands[0])

    return test


def _exists(property: Property) -> Condition:
    name = property.name
    if property.system:
        read = term(property)
        return lambda message: read(message) is not None
    return lambda message: message.has_user(name)


def term(node: Expression) -> Term:
    """An expression as a function; the function raises FilterError."""
    match node:
        case Constant(value):
            return lambda message: value
        case Property(name, system):
            return _system(name) if system else lambda message: from_amqp(message.user(name))
        case NewId():
            return lambda message: uuid4()
        case PropertyNamed(name_of):
            return _named(term(name_of))
        case Unary(sign, operand):
            return _unary(term(operand), negated if sign == "-" else unchanged)
        case Chain(first, rest):
            return _chain(term(first), [(sign, term(operand)) for sign, operand in rest])


def _system(name: str) -> Term:
    known = name.lower() in SYSTEM_NAMES

    def read(message: MessageProperties) -> Value:
        if not known:
            raise no_such_property(name)
        return from_amqp(message.system(name))

    return read


def no_such_property(name: str) -> FilterError:
    """The failure of a rule that asks for a system property that no message has."""
    return FilterError(f"there is no system property '{name}'")


def _named(name_of: Term) -> Term:
    def read(message: MessageProperties) -> Value:
        name = name_of(message)
        if name is None:
            return None
        if not isinstance(name, str):
            raise FilterError("the argument of property() must be a string")
        return from_amqp(message.user(name))

    return read


def _unary(operand: Term, operation: Callable[[Value], Value]) -> Term:
    def unary(message: MessageProperties) -> Value:
        value = operand(message)
        return None if value is None else operation(value)

    return unary


def _chain(first: Term, rest: list[tuple[str, Term]]) -> Term:
    def chain(message: MessageProperties) -> Value:
        value = first(message)
        for sign, operand in rest:
            other = operand(message)
            value = None if value is None or other is None else calculate(value, sign, other)
        return value

    return chain


def change(statements: tuple[Statement, ...]) -> Change:
    """An action as a function that changes properties; the function raises FilterError. Raises InvalidRule."""
    steps = [_step(statement) for statement in statements]

    def run(message: MessageProperties) -> None:
        for step in steps:
            step(message)

    return run


def _step(statement: Statement) -> Change:
    name, system = statement.property.name, statement.property.system
    value = term(statement.value) if isinstance(statement, Set) else term(Constant(None))
    if system:
        return _system_change(name, value)
    if isinstance(statement, Set):
        return lambda message: message.set_user(name, to_amqp(fitted(value(message), _existing(message, name))))
    return lambda message: message.remove_user(name)


def _existing(message: MessageProperties, name: str) -> Value:
    """The value before, for its type; one that rules cannot evaluate has none to keep."""
    try:
        return from_amqp(message.user(name))
    except FilterError:
        return None


def _system_change(name: str, value: Term) -> Change:
    if name.lower() in SYSTEM_NAMES and name.lower() not in SETTABLE:
        raise InvalidRule(f"the system property '{name}' cannot be changed")
    kind = SETTABLE.get(name.lower())

    def write(message: MessageProperties) -> None:
        if kind is None:
            raise no_such_property(name)
        new = value(message)
        try:
            message.set_system(name, as_text(new) if kind is str and new is not None else new)
        except TypeError as error:
            raise FilterError(f"the system property '{name}' cannot be set: {error}") from None

    return write
