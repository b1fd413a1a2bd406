"""The rules of one subscription, ready to be asked: which copies of a message it takes.

All matching rules without action together make one copy; every matching rule with an action makes one of its own, which
the action changes and which carries the rule's name in a user property `RuleName`. A rule that cannot be evaluated for a
message makes no copy, and the others are asked all the same.
Source: learn.microsoft.com "Topic filters and actions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from emulators.servicebus.amqp.values import DecodeError
from emulators.servicebus.message import Message
from emulators.servicebus.properties import MessageProperties

from . import evaluate
from .correlation import compile_correlation
from .description import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    RuleDescription,
    RuleInfo,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from .errors import FilterError
from .parser import parse_action, parse_filter

RULE_NAME: Final = "RuleName"

Condition = Callable[[MessageProperties], bool]
Change = Callable[[MessageProperties], None]


@dataclass(frozen=True, slots=True)
class Copies:
    """What a subscription takes of a message; `failure` says why a rule could not be evaluated."""

    messages: list[Message]
    failure: str | None


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    condition: Condition
    change: Change | None


class RuleSet:
    """Rules in their order. Raises InvalidRule when one of them cannot be: checked here, so that evaluation meets no surprise."""

    def __init__(self, rules: Iterable[RuleInfo]) -> None:
        infos = list(rules)
        self._rules = [
            _Rule(rule.name, _condition(rule.description.filter), _change(rule.description.action)) for rule in infos
        ]
        self.takes_everything = any(_is_always(rule.description) for rule in infos) and all(
            _is_always(rule.description) or _is_never(rule.description) for rule in infos
        )

    def copies(self, message: Message) -> Copies:
        """The copies for the subscription, the plain one first; `message` itself is not changed."""
        if self.takes_everything:
            return Copies([message.copy()], None)
        properties = MessageProperties(message)
        plain: list[Message] = []
        changed: list[Message] = []
        failure: str | None = None
        for rule in self._rules:
            if plain and rule.change is None:
                continue
            try:
                if not rule.condition(properties):
                    continue
                if rule.change is None:
                    plain.append(message.copy())
                else:
                    changed.append(_changed(message, rule.name, rule.change))
            except (FilterError, DecodeError) as error:
                failure = failure or f"Rule '{rule.name}' could not be evaluated: {error}"
        return Copies(plain + changed, failure)


def _is_always(rule: RuleDescription) -> bool:
    """The true filter, also as SDKs write it over AMQP, without action."""
    return rule.action is None and _constant(rule.filter) in (TrueFilter(), SqlFilter("1=1"))


def _is_never(rule: RuleDescription) -> bool:
    return _constant(rule.filter) in (FalseFilter(), SqlFilter("1=0"))


def _constant(given: Filter) -> Filter:
    return SqlFilter(given.expression.replace(" ", "")) if isinstance(given, SqlFilter) else given


def _changed(message: Message, name: str, change: Change) -> Message:
    copy = message.copy()
    properties = MessageProperties(copy)
    properties.set_user(RULE_NAME, name)
    change(properties)
    properties.write()
    return copy


def _condition(description: Filter) -> Condition:
    match description:
        case TrueFilter():
            return lambda message: True
        case FalseFilter():
            return lambda message: False
        case CorrelationFilter():
            return compile_correlation(description)
        case SqlFilter(expression, parameters):
            holds = evaluate.condition(parse_filter(expression, parameters))
            return lambda message: holds(message) is True


def _change(action: SqlAction | None) -> Change | None:
    return None if action is None else evaluate.change(parse_action(action.expression, action.parameters))
