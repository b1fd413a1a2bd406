"""What common/bus/browsing.py promises of browsers and takers."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.amqp import AmqpAnnotatedMessage

from common.bus.browsing import Shelf
from common.errors import EntityMissing, EntityUnavailable, PermanentError, TransientError
from common.message import Message
from common.servicebus.operating import browser
from common.servicebus.operating.taker import BusTaker
from tests.contracts.browsing.conftest import Emulated, House, all_of


def numbered(count: int, *, sessions: int = 3, first: int = 0) -> list[Message]:
    return [
        Message(
            f'{{"n":{number}}}'.encode(),
            f"id-{number}",
            session_id=f"lane-{number % sessions}",
            subject="Insert",
            application_properties={"table": "Persons", "n": number},
        )
        for number in range(first, first + count)
    ]


def test_a_queue_with_sessions_is_looked_at_while_a_session_is_held(house: House) -> None:
    sent = numbered(30)
    house.send(house.lanes, sent)
    receivers = house.bus.receivers(house.lanes, sessions=True, prefetch=1)
    holder = receivers.open(max_wait=5)
    assert holder is not None
    held = holder.receive(max_count=5, max_wait=5)
    found = all_of(house.browser(Shelf(house.lanes)), most=7)
    assert sorted(each.message.message_id or "" for each in found) == sorted(each.message_id or "" for each in sent)
    assert [each.sequence for each in found] == sorted(each.sequence for each in found)
    first = next(each for each in found if each.message.message_id == "id-0")
    assert first.message == sent[0]
    assert first.enqueued is not None
    assert abs(first.enqueued - datetime.now(UTC)) < timedelta(minutes=5)
    assert (first.state, first.reason, first.fault) == ("active", None, None)
    holder.settle_many(held)
    holder.close()


def test_what_is_not_there_is_an_answer_and_comes_at_once(house: House) -> None:
    for shelf in (Shelf(house.topic, "third", dead=True), Shelf(house.topic, "third"), Shelf("nowhere", dead=True)):
        began = time.monotonic()
        with pytest.raises(EntityMissing):
            house.browser(shelf).page(first=0, most=10)
        assert time.monotonic() - began < 30


def test_a_number_that_amqp_cannot_hold_is_final(emulated: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated.send(emulated.plain, numbered(1))
    looking = emulated.browser(Shelf(emulated.plain))
    assert len(looking.page(first=0, most=1)) == 1
    monkeypatch.setattr(browser, "LAST", 2**80)  # as if nothing were refused before the SDK sees it
    began = time.monotonic()
    with pytest.raises(PermanentError, match="no encoding for the request"):
        looking.page(first=2**63, most=1)
    assert time.monotonic() - began < 30
    assert len(looking.page(first=0, most=1)) == 1


def test_looking_locks_nothing_and_counts_no_delivery(house: House) -> None:
    house.send(house.plain, numbered(3))
    browser = house.browser(Shelf(house.plain))
    for _ in range(3):
        assert [each.delivery_count for each in all_of(browser)] == [0, 0, 0]
    receiver = house.bus.receivers(house.plain, sessions=False, prefetch=10).open(max_wait=0)
    assert receiver is not None
    got = receiver.receive(max_count=3, max_wait=5)
    assert got[0].delivery_count == 0
    receiver.settle_many(got)
    receiver.close()


def test_a_page_begins_where_it_is_told(house: House) -> None:
    house.send(house.plain, numbered(20))
    browser = house.browser(Shelf(house.plain))
    whole = all_of(browser)
    page = browser.page(first=whole[5].sequence, most=3)
    assert [each.sequence for each in page] == [each.sequence for each in whole[5:8]]
    assert not browser.page(first=whole[-1].sequence + 1, most=3)


@pytest.mark.parametrize("where", ["lanes", "plain", "subscription"])
def test_dead_letters_are_seen_with_their_reason_and_taken_in_order(house: House, where: str) -> None:
    kept = {"lanes": Shelf(house.lanes), "plain": Shelf(house.plain), "subscription": Shelf(house.topic, "first")}[
        where
    ]
    shelf = Shelf(kept.entity, kept.subscription, dead=True)
    house.bury(kept, numbered(12, sessions=2))
    seen = all_of(house.browser(shelf))
    assert [(each.reason, each.description) for each in seen] == [("Refused", "on purpose")] * 12
    assert all(each.message.session_id for each in seen)
    taker = house.taker(shelf)
    taken = list(taker.take(most=5, wait=5))
    while len(taken) < 12 and (more := taker.take(most=5, wait=2)):
        taken += more
    assert [each.lying.sequence for each in taken] == [each.sequence for each in seen]
    assert [each.lying.message for each in taken] == [each.message for each in seen]
    assert all(each.lying.reason == "Refused" for each in taken)
    assert all(each.lock_left() > 3 for each in taken)
    assert taker.take(most=5, wait=0.5) == []
    assert taker.complete(taken[:10]) == []
    taker.give_back(taken[10:])
    again = taker.take(most=5, wait=5)
    assert {each.lying.sequence for each in again} <= {each.sequence for each in seen[10:]}
    taker.complete(again)


def test_what_was_put_aside_lets_others_come_and_is_free_after_the_end(house: House) -> None:
    house.bury(Shelf(house.plain), numbered(40))
    shelf = Shelf(house.plain, dead=True)
    sequence = all_of(house.browser(shelf))[33].sequence
    taker, passed, wanted = house.taker(shelf), 0, None
    while wanted is None:
        page = taker.take(most=8, wait=5)
        assert page
        wanted = next((each for each in page if each.lying.sequence == sequence), None)
        rest = [each for each in page if each is not wanted]
        taker.put_aside(rest)
        passed += len(rest)
    assert passed >= 33
    assert taker.complete([wanted]) == []
    taker.close()
    other = house.taker(shelf)
    free: set[int] = set()
    until = time.monotonic() + 10
    while len(free) < 39 and time.monotonic() < until:
        free |= {each.lying.sequence for each in other.take(most=50, wait=1)}
    assert len(free) == 39


def test_a_missing_entity_is_named(house: House) -> None:
    with pytest.raises(EntityUnavailable, match="no-such-queue"):
        house.browser(Shelf("no-such-queue")).page(first=0, most=1)
    with pytest.raises(EntityUnavailable, match="no-such-queue"):
        house.taker(Shelf("no-such-queue", dead=True)).take(most=1, wait=1)


def test_what_others_wrote_is_seen(house: House) -> None:
    """A body that is a value and no octets has a fault, and those around it are read."""
    house.send(house.plain, numbered(1))
    with (
        ServiceBusClient.from_connection_string(house.connection_string) as client,
        client.get_queue_sender(house.plain) as sender,
    ):
        sender.send_messages(AmqpAnnotatedMessage(value_body={"a": 1}))
    house.send(house.plain, numbered(1, first=7))
    found = all_of(house.browser(Shelf(house.plain)))
    assert len(found) == 3
    assert [each.fault is None for each in found] == [True, False, True]


def test_the_window_in_which_duplicates_are_dropped(house: House) -> None:
    assert house.shelves.duplicate_window(house.lanes) == timedelta(minutes=10)
    assert house.shelves.duplicate_window(house.topic) == timedelta(minutes=10)
    assert sorted(house.shelves.subscriptions(house.topic)) == ["first", "second"]
    with pytest.raises(EntityUnavailable, match="no-such"):
        house.shelves.duplicate_window("no-such")


def test_a_lost_lock_is_reported_and_the_dead_letter_comes_again(emulated: Emulated) -> None:
    emulated.bury(Shelf(emulated.plain), numbered(3))
    taker = emulated.taker(Shelf(emulated.plain, dead=True))
    taken = taker.take(most=3, wait=5)
    while len(taken) < 3:
        taken = [*taken, *taker.take(most=3, wait=5)]
    emulated.expire_locks()
    assert len(taker.complete(taken)) == 3
    taker.close()
    again = emulated.taker(Shelf(emulated.plain, dead=True)).take(most=3, wait=5)
    assert again[0].lying.sequence == taken[0].lying.sequence


def test_after_a_cut_connection_both_go_on(emulated: Emulated) -> None:
    emulated.bury(Shelf(emulated.plain), numbered(3))
    shelf = Shelf(emulated.plain, dead=True)
    browser, taker = emulated.browser(shelf), emulated.taker(shelf)
    assert len(all_of(browser)) == 3
    assert taker.take(most=1, wait=5)
    emulated.emulator.drop_connections()
    for call in (lambda: browser.page(first=0, most=9), lambda: taker.take(most=9, wait=1)):
        for _ in range(5):
            try:
                assert call() is not None
                break
            except TransientError:
                continue
        else:
            pytest.fail("it did not open its link again")
    assert len(all_of(browser)) == 3


def test_of_many_that_are_passed_over_only_runs_are_kept(emulated: Emulated) -> None:
    emulated.bury(Shelf(emulated.plain), numbered(600))
    taker, passed = emulated.shelves.taker(Shelf(emulated.plain, dead=True)), 0
    while passed < 600:
        page = taker.take(most=50, wait=5)
        assert page
        taker.put_aside(page)
        passed += len(page)
    assert isinstance(taker, BusTaker)
    assert taker._receiver is not None
    assert len(taker._receiver._passed_over.runs) == 1
    link = taker._receiver._receiver._handler._link
    assert link is not None
    assert not link._received_delivery_tags
    taker.close()
