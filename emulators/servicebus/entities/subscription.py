"""Subscriptions: the copies of a topic's messages that their rules make.

One that cannot take its copy, because it has no session or because a rule failed on it, keeps it as a dead letter. A rule whose
expression is none is refused.
Sources: learn.microsoft.com "Topic filters and actions", "Dead-letter queues".
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from emulators.servicebus.description import (
    Description,
    EntityExists,
    EntityMissing,
    InvalidEntity,
    RuntimeCounts,
    SubscriptionDescription,
)
from emulators.servicebus.message import Message
from emulators.servicebus.rules import InvalidRule, RuleSet
from emulators.servicebus.rules.description import RuleDescription, RuleInfo
from emulators.servicebus.store.forwarding import NO_SESSION

from .outlet import Outlet, Surroundings

FILTER_FAILED: Final = "FilterEvaluationException"
"""Reason of a dead letter; its description is the error. That it becomes one is documented, the reason is not."""


class Subscription:
    """A subscription: an outlet that a topic fills, with what its rules make of a message.

    `rules` by lower-case name, in order of their creation.
    """

    def __init__(self, path: str, description: SubscriptionDescription, around: Surroundings) -> None:
        self.path = path
        self.description = description
        self.outlet = Outlet(path, description, around)
        self.rules: dict[str, RuleInfo] = {}
        self._journal = around.journal
        self._rule_set = RuleSet(())

    def reconfigure(self, description: Description, now: int) -> None:
        """New settings, from now on."""
        assert isinstance(description, SubscriptionDescription)
        self.description = description
        self.outlet.reconfigure(description, now)

    def counts(self) -> RuntimeCounts:
        """What is here now."""
        return self.outlet.counts()

    @property
    def due(self) -> int:
        """When `sweep` must be called next."""
        return self.outlet.due

    def sweep(self, now: int) -> None:
        """Do what is due."""
        self.outlet.sweep(now)

    # -- rules

    def rule(self, name: str) -> RuleInfo:
        """Raises EntityMissing."""
        rule = self.rules.get(name.lower())
        if rule is None:
            raise EntityMissing(f"the rule '{name}' does not exist on '{self.path}'")
        return rule

    def create_rule(self, name: str, description: RuleDescription, created_at: datetime) -> RuleInfo:
        """Raises EntityExists, InvalidEntity for an expression that is none."""
        if name.lower() in self.rules:
            raise EntityExists(f"the rule '{name}' exists already on '{self.path}'")
        return self._keep_rule(RuleInfo(name, description, created_at))

    def update_rule(self, name: str, description: RuleDescription) -> RuleInfo:
        """Raises EntityMissing, InvalidEntity for an expression that is none."""
        rule = self.rule(name)
        return self._keep_rule(RuleInfo(rule.name, description, rule.created_at))

    def delete_rule(self, name: str) -> None:
        """Raises EntityMissing."""
        rule = self.rule(name)
        del self.rules[name.lower()]
        self._rule_set = RuleSet(self.rules.values())
        self._journal.drop_rule(self.path.lower(), rule.name)

    def restore_rule(self, rule: RuleInfo) -> None:
        """Put back a rule that the journal kept. Raises InvalidEntity."""
        rules = {**self.rules, rule.name.lower(): rule}
        try:
            self._rule_set = RuleSet(rules.values())
        except InvalidRule as error:
            raise InvalidEntity(f"the rule '{rule.name}' of '{self.path}': {error}") from None
        self.rules = rules

    def _keep_rule(self, rule: RuleInfo) -> RuleInfo:
        self.restore_rule(rule)
        self._journal.save_rule(self.path.lower(), rule)
        return rule

    # -- messages from the topic

    def take(self, message: Message, now: int) -> None:
        """Take in copies of a message; the caller pumps."""
        if self._rule_set.takes_everything:
            self._enqueue(message.copy(), now)
            return
        copies = self._rule_set.copies(message)
        for copy in copies.messages:
            self._enqueue(copy, now)
        if copies.failure is not None and self.description.dead_lettering_on_filter_evaluation_exceptions:
            self.outlet.bury(message.copy(), now, FILTER_FAILED, copies.failure)

    def _enqueue(self, message: Message, now: int) -> None:
        if self.description.requires_session and message.session_id is None:
            self.outlet.bury(message, now, *NO_SESSION)
        else:
            self.outlet.store.enqueue(message, now)
