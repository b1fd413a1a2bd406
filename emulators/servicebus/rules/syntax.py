"""The tree of a filter or an action: what the parser builds and the evaluator walks.

Predicates are true, false or unknown; expressions have a value. Chains of one precedence are one node, so that a long
expression is not a deep one.
Source: the grammars of learn.microsoft.com "Subscription Rule SQL Filter Syntax" and "Subscription Rule SQL Action Syntax".
"""

from __future__ import annotations

from dataclasses import dataclass

from emulators.servicebus.amqp.values import Value


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant or the value of a parameter; None is NULL."""

    value: Value


@dataclass(frozen=True, slots=True)
class Property:
    """A property by name; `system` tells the scope."""

    name: str
    system: bool


@dataclass(frozen=True, slots=True)
class NewId:
    """newid()"""


@dataclass(frozen=True, slots=True)
class PropertyNamed:
    """property(name) or p(name): the user property whose name an expression gives."""

    name: Expression


@dataclass(frozen=True, slots=True)
class Unary:
    """`sign` is + or -."""

    sign: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Chain:
    """Operands joined from left to right by + and -, or by *, / and %."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sign` is one of = <> > >= < <=."""

    left: Expression
    sign: str
    right: Expression


@dataclass(frozen=True, slots=True)
class IsNull:
    """property IS NULL"""

    property: Property


@dataclass(frozen=True, slots=True)
class Exists:
    """EXISTS (property)"""

    property: Property


@dataclass(frozen=True, slots=True)
class In:
    """left IN (items)"""

    left: Expression
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """left LIKE pattern [ESCAPE escape]"""

    left: Expression
    pattern: Expression
    escape: Expression | None


@dataclass(frozen=True, slots=True)
class Not:
    """NOT operand"""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Two operands or more."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two operands or more."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Set:
    """SET property = value"""

    property: Property
    value: Expression


@dataclass(frozen=True, slots=True)
class Remove:
    """REMOVE property"""

    property: Property


Expression = Constant | Property | NewId | PropertyNamed | Unary | Chain
Predicate = Comparison | IsNull | Exists | In | Like | Not | And | Or
Statement = Set | Remove
