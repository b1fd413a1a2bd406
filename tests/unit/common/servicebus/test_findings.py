"""What a queue's and a topic's facts mean; what an emulator or a namespace is seldom like."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from common.bus.ports import DUPLICATE_DETECTION_WINDOW, Storage
from common.check import Finding, Outcome, guarded, ok
from common.errors import TransientError
from common.servicebus.entities import Keeping, QueueFacts, SubscriptionFacts, TopicFacts
from common.servicebus.findings import FAILOVER, judge_queue, judge_topic
from common.servicebus.remedies.az import Entity

Q, T = Entity("queue", "q", "bus.servicebus.windows.net"), Entity("topic", "t", "bus.servicebus.windows.net")
FULL = Storage(used=850 * 2**20, limit=1024 * 2**20)
QUEUE = QueueFacts(
    sessions=True,
    duplicate_window=FAILOVER,
    lock=timedelta(minutes=1),
    max_deliveries=10,
    status="Active",
    waiting=7,
    dead=0,
    storage=Storage(0, 2**30),
)
TOPIC = TopicFacts(FAILOVER, "Active", Storage(0, 2**30), (SubscriptionFacts("sub1", 0, 0),))


def queue(facts: QueueFacts) -> list[Finding]:
    return judge_queue("queue q", facts, sessions=True, provision="none", entity=Q)


def topic(facts: TopicFacts) -> list[Finding]:
    return judge_topic("topic t", facts, subscriptions=["sub1"], provision="none", entity=T)


def test_what_dstream_itself_creates_is_ok() -> None:
    made = replace(QUEUE, duplicate_window=DUPLICATE_DETECTION_WINDOW)
    assert [finding.outcome for finding in queue(made)] == [Outcome.OK]


def test_a_topic_that_fills_up_names_the_subscription_that_nobody_reads() -> None:
    unread = SubscriptionFacts("forgotten", waiting=90_000, dead=3)
    [found] = topic(replace(TOPIC, storage=FULL, subscriptions=(*TOPIC.subscriptions, unread)))
    assert found.outcome is Outcome.WARN
    assert "used 83% of its 1024 MB" in found.text
    assert "forgotten has 90000 unread and 3 dead letters" in found.text


def test_a_queue_that_fills_up_is_a_warning_with_what_waits() -> None:
    [found] = queue(replace(QUEUE, storage=FULL))
    assert (found.outcome, "7 messages waiting" in found.text) == (Outcome.WARN, True)


def test_a_size_without_a_known_limit_says_nothing() -> None:
    [found] = topic(replace(TOPIC, storage=Storage(2**40, 0)))
    assert found.outcome is Outcome.OK


@pytest.mark.parametrize(
    ("keeping", "text", "remedy"),
    [
        (Keeping(messages=timedelta(days=14)), "waits in it for 14 days is deleted without a trace", "no limit"),
        (Keeping(messages=timedelta(minutes=1), dead_letters=True), "for 1m is dead-lettered", "no limit"),
        (
            Keeping(unused=timedelta(hours=36)),
            "is deleted, with all that is in it, when it was not used for 36h",
            "Idle",
        ),
        (Keeping(forwards_to="other"), "forwards its messages to other", "ForwardTo"),
    ],
)
def test_a_queue_that_does_not_keep_what_it_has_accepted_fails(keeping: Keeping, text: str, remedy: str) -> None:
    [found] = queue(replace(QUEUE, keeping=keeping))
    assert (found.outcome, text in found.text, remedy in (found.hint or "")) == (Outcome.FAIL, True, True), found


def test_a_topic_that_does_not_keep_what_it_has_accepted_is_warned_of() -> None:
    found = topic(replace(TOPIC, keeping=Keeping(messages=timedelta(days=1), unused=timedelta(days=7))))
    assert [each.outcome for each in found] == [Outcome.WARN] * 2
    assert "after 1 day expires" in found[0].text
    assert "not used for 7 days" in found[1].text


def test_a_topic_that_takes_smaller_messages_than_the_queue_is_warned_of() -> None:
    large = replace(QUEUE, largest=1024 * 1024)
    for here in (None, 512 * 1024):
        found = judge_topic(
            "topic t", replace(TOPIC, largest=here), subscriptions=["sub1"], provision="none", entity=T, queue=large
        )
        assert [(each.outcome, "up to 1024 KB" in each.text) for each in found] == [(Outcome.WARN, True)]
    for there in (QUEUE, large):
        same = replace(TOPIC, largest=there.largest)
        [found_ok] = judge_topic("topic t", same, subscriptions=["sub1"], provision="none", entity=T, queue=there)
        assert found_ok.outcome is Outcome.OK


@pytest.mark.parametrize("status", ["Disabled", "SendDisabled", "ReceiveDisabled"])
def test_an_entity_that_was_switched_off_fails(status: str) -> None:
    for found in (queue(replace(QUEUE, status=status)), topic(replace(TOPIC, status=status))):
        assert [(finding.outcome, status in finding.text) for finding in found] == [(Outcome.FAIL, True)]


def test_several_faults_are_several_lines() -> None:
    facts = replace(QUEUE, sessions=False, duplicate_window=None, lock=timedelta(seconds=5), max_deliveries=1, dead=2)
    assert sorted(finding.outcome for finding in queue(facts)) == ["fail", "warn", "warn", "warn", "warn"]


def test_a_line_is_the_outcome_the_subject_the_text_and_the_remedy() -> None:
    assert str(ok("queue q", "there")) == "ok    queue q: there"
    assert str(Finding(Outcome.FAIL, "queue q", "gone", "create it")) == "fail  queue q: gone: create it"


def test_what_cannot_be_reached_fails_after_what_was_found_before() -> None:
    def look() -> list[Finding]:
        raise TransientError("no answer", hint="check the firewall")

    assert [str(finding) for finding in guarded("queue q", look)] == ["fail  queue q: no answer: check the firewall"]
