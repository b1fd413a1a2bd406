"""A subscription among its rules: what a rule that fails does to a message."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from emulators.servicebus.description import InvalidEntity, SubscriptionDescription, TopicDescription
from emulators.servicebus.entities.namespace import Namespace
from emulators.servicebus.entities.outlet import Surroundings
from emulators.servicebus.entities.restoration import restore_rule
from emulators.servicebus.entities.subscription import FILTER_FAILED, Subscription
from emulators.servicebus.journal import Forgetful
from emulators.servicebus.message import Message, parse_message
from emulators.servicebus.rules import Copies, InvalidRule
from emulators.servicebus.rules.description import CorrelationFilter, RuleDescription, RuleInfo, SqlFilter
from emulators.servicebus.storage.recovery import recover
from emulators.servicebus.storage.sqlite_journal import SqliteJournal

from .messages import make_message


def nowhere(target: str, message: Message, now: int) -> None:
    raise AssertionError("nothing is forwarded here")


AROUND = Surroundings(Forgetful(), nowhere, lambda moment: None)


class Clock:
    """Seconds since the Unix epoch."""

    seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


class Failing:
    """Rules that take a copy and fail all the same."""

    takes_everything = False

    def __init__(self, rules: object) -> None: ...

    def copies(self, message: Message) -> Copies:
        return Copies([message.copy()], "division by zero")


@pytest.mark.parametrize("wanted", [True, False])
def test_a_message_that_a_rule_failed_on_is_a_dead_letter_if_the_subscription_wants_it(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 41."""
    monkeypatch.setattr("emulators.servicebus.entities.subscription.RuleSet", Failing)
    description = SubscriptionDescription(dead_lettering_on_filter_evaluation_exceptions=wanted)
    subscription = Subscription("t/Subscriptions/s", description, AROUND)
    subscription.take(parse_message(b"\x00\x53\x75\xa0\x01x"), 1)
    assert len(subscription.outlet.store) == 1
    dead = list(subscription.outlet.dead_letters.messages())
    assert len(dead) == wanted
    for message in dead:
        assert FILTER_FAILED.encode() in message.tail
        assert b"division by zero" in message.tail
        assert message.sequence == 2


def test_a_rule_that_cannot_be_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = Namespace(lambda: 1.0, Forgetful())
    namespace.create("t", TopicDescription())
    namespace.create("t/subscriptions/s", SubscriptionDescription())
    before = namespace.rules("t/subscriptions/s")

    def refuse(rules: object) -> None:
        raise InvalidRule("column 3: no such thing")

    monkeypatch.setattr("emulators.servicebus.entities.subscription.RuleSet", refuse)
    with pytest.raises(InvalidEntity, match="column 3"):
        namespace.create_rule("t/subscriptions/s", "bad", RuleDescription(SqlFilter("?")))
    assert namespace.rules("t/subscriptions/s") == before
    monkeypatch.setattr(
        "emulators.servicebus.entities.subscription.RuleSet",
        lambda rules: Failing(rules) if not list(rules) else refuse(rules),
    )
    with pytest.raises(InvalidEntity, match="column 3"):
        namespace.create("t/subscriptions/other", SubscriptionDescription(), ("bad", RuleDescription(SqlFilter("?"))))
    assert [info.path for info in namespace.subscriptions("t")] == ["t/subscriptions/s"]


def test_a_rule_put_back_keeps_its_time() -> None:
    namespace = Namespace(lambda: 1.0, Forgetful())
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    namespace.restore_entity("t", TopicDescription(), moment, moment)
    namespace.restore_entity("t/subscriptions/s", SubscriptionDescription(), moment, moment)
    assert namespace.rules("t/subscriptions/s") == []
    rule = RuleInfo("r", RuleDescription(CorrelationFilter(label="x")), moment)
    restore_rule(namespace, "t/subscriptions/s", rule)
    assert namespace.rule("T/Subscriptions/S", "R") == rule


def dead_letters(namespace: Namespace) -> list[Message]:
    store = namespace.find("t/subscriptions/s/$deadletterqueue").store
    assert store is not None
    return sorted(store.messages(), key=lambda message: message.sequence)


def test_no_two_dead_letters_of_a_subscription_have_one_number(tmp_path: Path) -> None:
    """What a rule failed on is numbered by the subscription, as what it took in is: its topic counts on its own."""
    clock = Clock()
    for restarts in range(2):
        journal = SqliteJournal(tmp_path)
        namespace = Namespace(clock, journal)
        recover(journal, namespace)
        if not restarts:
            wanted = SubscriptionDescription(
                dead_lettering_on_filter_evaluation_exceptions=True, dead_lettering_on_message_expiration=True
            )
            namespace.create("t", TopicDescription())
            namespace.create("t/subscriptions/s", wanted, ("typed", RuleDescription(SqlFilter("colour > 5"))))
            namespace.create_rule("t/subscriptions/s", "all", RuleDescription())
        for _ in range(2):
            message = make_message({"colour": "red"})
            message.ttl = 1000
            namespace.transfer("t", message, namespace.now())
        clock.seconds += 2
        namespace.sweep()
        dead = dead_letters(namespace)
        assert [message.sequence for message in dead] == list(range(1, 4 * restarts + 5))
        assert sum(FILTER_FAILED.encode() in message.tail for message in dead) == 2 * restarts + 2
        journal.commit()
        journal.close()
