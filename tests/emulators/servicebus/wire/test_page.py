"""`GET /`: what is in the namespace, for people; escaped, cut short, without the bodies of messages."""

from __future__ import annotations

import http.client
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from emulators.servicebus.administration import page
from emulators.servicebus.administration.page import Counts, DeadLetterView, EntityView, Overview, SessionView, render
from emulators.servicebus.description import (
    EntityInfo,
    EntityMissing,
    InvalidEntity,
    QueueDescription,
    RuntimeCounts,
    SubscriptionDescription,
    TopicDescription,
)
from emulators.servicebus.rules.description import CorrelationFilter, RuleDescription, RuleInfo, SqlAction, SqlFilter
from tests.emulators.servicebus.conftest import LOCK, Bus

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EVIL = "<script>alert('x')</script>"


def view(path: str, description: QueueDescription | None = None) -> EntityView:
    info = EntityInfo(path, description or QueueDescription(), RuntimeCounts(size_in_bytes=99), NOW, NOW, NOW)
    return EntityView(info, Counts(1, 2, 3, 4, 0, 6), 7, 8, [], 0, [], 0, [])


@dataclass
class Looked:
    """An inspection of what is given, that remembers what it was asked."""

    views: Sequence[EntityView]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def overview(self) -> Overview:
        return Overview(3, {"sent": 7, "received": 5}, [view.info.path for view in self.views])

    def entity(self, path: str, most: int) -> EntityView:
        self.asked.append((path, most))
        found = [view for view in self.views if view.info.path == path]
        if not found:
            raise EntityMissing(path)
        return found[0]


def show(*views: EntityView, **query: str) -> str:
    return render(Looked(views), "emulator", {name: [value] for name, value in query.items()})


def text_of(document: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", document.partition("</style>")[2]).split())


def test_counts_and_settings_other_than_the_default_are_shown() -> None:
    shown = text_of(show(view("orders", QueueDescription(lock_duration=timedelta(seconds=30), requires_session=True))))
    assert "1 entities, 3 connections." in shown
    assert "Credits spent, as Standard counts them: 12 (7 sent, 5 received)." in shown
    assert "orders queue 1 2 3 4 0 6 99 7 8 lock_duration PT30S, requires_session True" in shown


def test_an_empty_namespace_says_so() -> None:
    assert "There is no entity here." in show()


def test_sessions_show_their_lock_and_the_size_of_their_state() -> None:
    sessions = [SessionView("free one", None, 5, None), SessionView("owned one", NOW, 0, 12)]
    shown = text_of(show(replace(view("q"), sessions=sessions, sessions_in_all=9)))
    assert "Sessions: 2 of 9" in shown
    assert "free one free 5 none owned one owned until 2026-01-02 03:04:05 UTC 0 12" in shown


def test_rules_show_filter_and_action_with_their_parameters() -> None:
    rules = [
        RuleInfo("sql", RuleDescription(SqlFilter("a = @b", {"@b": 1}), SqlAction("SET c = 2")), NOW),
        RuleInfo("exact", RuleDescription(CorrelationFilter(label="new", properties={"region": "north"})), NOW),
        RuleInfo("$Default", RuleDescription(), NOW),
    ]
    shown = text_of(show(replace(view("q"), rules=rules, rules_in_all=3)))
    assert "sql a = @b (@b = 1) SET c = 2" in shown
    assert "exact label = &#x27;new&#x27;, region = &#x27;north&#x27;" in shown
    assert "$Default everything" in shown


def test_dead_letters_show_why() -> None:
    letters = [DeadLetterView(17, NOW, 120, 3, "MaxDeliveryCountExceeded", "too often")]
    counts = Counts(0, 0, 0, 0, 40, 0)
    shown = text_of(show(replace(view("q"), dead_letters=letters, counts=counts)))
    assert "Dead letters: 1 of 40" in shown
    assert "17 2026-01-02 03:04:05 UTC 3 120 MaxDeliveryCountExceeded too often" in shown


def test_whatever_users_say_is_escaped() -> None:
    evil = replace(
        view(EVIL, QueueDescription(user_metadata=EVIL)),
        sessions=[SessionView(EVIL, None, 1, None)],
        sessions_in_all=1,
        rules=[RuleInfo(EVIL, RuleDescription(SqlFilter(EVIL), SqlAction(EVIL)), NOW)],
        rules_in_all=1,
        dead_letters=[DeadLetterView(1, NOW, 1, 1, EVIL, EVIL)],
        counts=Counts(0, 0, 0, 0, 1, 0),
    )
    document = show(evil)
    assert "<script" not in document
    assert document.count("&lt;script&gt;") == 9


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing() -> None:
    document = show(view("q"))
    assert re.findall(r"https?://|<script|<link|<img|src=", document) == []
    assert "default-src 'none'" in document


def test_long_texts_are_cut() -> None:
    document = show(view("q", QueueDescription(user_metadata="x" * 10_000)))
    assert len(document) < 4_000


def test_many_entities_come_in_pages_with_few_of_everything() -> None:
    looked = Looked([view(f"q{number:04d}") for number in range(250)])
    document = render(looked, "emulator", {"skip": ["100"]})
    assert [path for path, _ in looked.asked] == [f"q{number:04d}" for number in range(100, 200)]
    assert {most for _, most in looked.asked} == {page.FEW}
    assert ('href="/?skip=0"' in document, 'href="/?skip=200"' in document) == (True, True)
    assert "101 to 200 of 250" in document


def test_one_entity_alone_shows_more_of_it() -> None:
    looked = Looked([view("a/b"), view("other")])
    assert 'href="/?entity=a%2Fb"' in render(looked, "emulator", {})
    looked.asked.clear()
    render(looked, "emulator", {"entity": ["a/b"]})
    assert looked.asked == [("a/b", page.MANY)]


def test_entities_that_go_meanwhile_are_left_out() -> None:
    class Vanishing(Looked):
        def overview(self) -> Overview:
            return Overview(0, {}, ["gone", *super().overview().paths])

    assert "there" in render(Vanishing([view("there")]), "emulator", {})


@pytest.mark.parametrize("skip", ["-1", "x", "1" * 30, "²"])
def test_an_impossible_page_is_refused(skip: str) -> None:
    with pytest.raises(InvalidEntity):
        show(view("q"), skip=skip)


# The broker's own.


@pytest.fixture(scope="module")
def busy(bus: Bus) -> Bus:
    bus.create("plain")
    bus.create("sessions", QueueDescription(lock_duration=LOCK, requires_session=True))
    bus.emulator.admin.create("events", TopicDescription())
    bus.emulator.admin.create("events/Subscriptions/all", SubscriptionDescription())
    bus.send("plain", "the body", "a second body", "third", "fourth")
    bus.sender("sessions").send_messages(ServiceBusMessage("of a session", session_id="s1"))
    receiver = bus.receiver("plain")
    buried, deferred, held = receiver.receive_messages(3, max_wait_time=5)
    receiver.dead_letter_message(buried, reason="no good", error_description="for a test")
    receiver.defer_message(deferred)
    assert held.lock_token is not None
    return bus


def fetch(bus: Bus, path: str = "/") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{bus.emulator.http_port}{path}", timeout=5) as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        text: str = answer.read().decode()
        return text


def test_the_broker_tells_where_its_messages_are(busy: Bus) -> None:
    shown = text_of(fetch(busy))
    counts = busy.emulator.admin.get("plain").counts
    assert f"plain queue 1 1 1 0 1 0 {counts.size_in_bytes} 1 1 lock_duration PT5S" in shown
    assert "no good for a test" in shown
    assert "s1 free 1 none" in shown
    assert "$Default everything" in shown


def test_a_deferred_message_that_is_taken_back_is_locked(bus: Bus) -> None:
    bus.create("deferring")
    bus.send("deferring", "one", "two", "three")
    receiver = bus.receiver("deferring")
    first, second = receiver.receive_messages(2, max_wait_time=5)
    receiver.defer_message(first)
    receiver.defer_message(second)
    assert first.sequence_number is not None
    receiver.receive_deferred_messages(first.sequence_number)
    assert "deferring queue 1 1 1 0 0 0" in text_of(fetch(bus))


def test_bodies_are_never_shown(busy: Bus) -> None:
    for path in ("/", "/?entity=plain", "/?entity=sessions"):
        document = fetch(busy, path)
        assert "body" not in text_of(document)
        assert "third" not in document


def test_looking_is_no_access(busy: Bus) -> None:
    before = busy.emulator.admin.get("plain").accessed_at
    fetch(busy)
    assert busy.emulator.admin.get("plain").accessed_at == before


def test_a_missing_entity_is_not_found(busy: Bus) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", busy.emulator.http_port, timeout=5)
    connection.request("GET", "/?entity=nowhere")
    answer = connection.getresponse()
    assert (answer.status, b"nowhere" in answer.read()) == (404, True)
    connection.close()


def test_a_client_of_the_api_gets_no_page(bus: Bus) -> None:
    """azure-servicebus, test_mgmt_queue_get_runtime_properties_negative: an entity without a name is an error."""
    connection = http.client.HTTPConnection("127.0.0.1", bus.emulator.http_port, timeout=5)
    connection.request("GET", "/?api-version=2021-05")
    answer = connection.getresponse()
    assert (answer.status, b"40100" in answer.read()) == (401, True)
    connection.close()
