"""The management port for callers on any thread: every call runs on the broker's event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from emulators.servicebus.description import Description, EntityInfo
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.journal import Journal
from emulators.servicebus.loop_calls import LoopCalls
from emulators.servicebus.rules.description import RuleDescription, RuleInfo

_T = TypeVar("_T")


class LoopAdmin:
    """`EntityAdmin` for any thread: every call runs on the event loop and waits for its result.

    Every call raises NotRunning while the emulator is not running, or stops before it did what was asked. `charge` is told of every
    call.
    """

    def __init__(
        self,
        namespace: Namespace,
        journal: Journal,
        calls: LoopCalls,
        charge: Callable[[], None] = lambda: None,
    ) -> None:
        self._namespace = namespace
        self._journal = journal
        self._calls = calls
        self._charge = charge

    def _call(self, function: Callable[[], _T]) -> _T:
        def run() -> _T:
            self._charge()
            value = function()
            self._journal.commit()
            return value

        return self._calls.call(run)

    def create(
        self, path: str, description: Description, default_rule: tuple[str, RuleDescription] | None = None
    ) -> EntityInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.create(path, description, default_rule))

    def update(self, path: str, description: Description) -> EntityInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.update(path, description))

    def get(self, path: str) -> EntityInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.get(path))

    def delete(self, path: str) -> None:
        """See `EntityAdmin`."""
        self._call(lambda: self._namespace.delete(path))

    def queues(self) -> Sequence[EntityInfo]:
        """See `EntityAdmin`."""
        return self._call(self._namespace.queues)

    def topics(self) -> Sequence[EntityInfo]:
        """See `EntityAdmin`."""
        return self._call(self._namespace.topics)

    def subscriptions(self, topic: str) -> Sequence[EntityInfo]:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.subscriptions(topic))

    def rules(self, subscription: str) -> Sequence[RuleInfo]:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.rules(subscription))

    def rule(self, subscription: str, name: str) -> RuleInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.rule(subscription, name))

    def create_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.create_rule(subscription, name, description))

    def update_rule(self, subscription: str, name: str, description: RuleDescription) -> RuleInfo:
        """See `EntityAdmin`."""
        return self._call(lambda: self._namespace.update_rule(subscription, name, description))

    def delete_rule(self, subscription: str, name: str) -> None:
        """See `EntityAdmin`."""
        self._call(lambda: self._namespace.delete_rule(subscription, name))
