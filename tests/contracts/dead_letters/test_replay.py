"""Dead letters sent again: whole, once, in their order, and with an account of those that were left."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from common.bus.browsing import Shelf
from desk.dead_letters.copying import copy_of
from desk.dead_letters.engine import Watch
from desk.documents.messages import MessageFilter
from ingester.operating.newer import ChangeRef, Newer, Sent
from tests.contracts.dead_letters.conftest import ADA, PERSONS, QUEUE, Namespace, Rows, change, numbers, order


def newer(*numbers: int) -> Newer:
    refs = tuple(ChangeRef("dbo", "Persons", f"{n:020x}", f"{n:020x}", 4) for n in numbers)
    return Newer(Sent.YES, lsn=f"{numbers[-1]:020x}", changes=refs)


def test_copies_are_whole_and_in_order(namespace: Namespace) -> None:
    sent = [change(number, session=f"s{number % 2}", set_aside="why") for number in range(1, 21)]
    namespace.bury(sent, reason="FilterFailed")
    before = namespace.dead
    result = namespace.engine().run(order(reason="filter corrected"), "replay", ADA, Watch())
    assert (result.matched, result.replayed, result.left_count, result.doubtful) == (20, 20, 0, 0)
    assert result.complete
    assert namespace.dead == []
    arrived = namespace.waiting
    assert numbers(arrived) == numbers(before)
    by_number = dict(zip(numbers(before), before, strict=True))
    for found in arrived:
        was = by_number[numbers([found])[0]].message
        told = dict(found.message.application_properties)
        assert told.pop("dstream_replays") == 1
        assert told.pop("dstream_replay_of") == was.message_id
        names = {"set_aside", "DeadLetterReason", "DeadLetterErrorDescription"}
        assert told == {name: value for name, value in was.application_properties.items() if name not in names}
        assert found.message.message_id != was.message_id
        same = replace(found.message, message_id=was.message_id, application_properties=was.application_properties)
        assert same == was
    lines = namespace.audit.lines(after=None, most=10).items
    assert [(line.action, line.outcome, line.reason) for line in lines] == [
        ("dead_letters.replay", "done", "filter corrected"),
        ("dead_letters.replay", "begun", "filter corrected"),
    ]
    assert lines[0].details["replayed"] == 20


def test_a_dry_run_changes_nothing(namespace: Namespace) -> None:
    namespace.bury([change(1), change(2, oversize=True)])
    before = namespace.dead
    result = namespace.engine().plan(order(), "replay", Watch())
    assert (result.dry_run, result.matched, result.replayed, result.left_count) == (True, 2, 1, 1)
    assert "stand-in" in result.left[0].why
    assert namespace.dead == before
    assert namespace.waiting == []


def test_only_those_that_are_meant(namespace: Namespace) -> None:
    namespace.bury([change(n) for n in range(1, 31)], reason="Refused")
    namespace.bury([change(n) for n in range(31, 36)], reason="MessageTooLarge")
    namespace.bury([change(n, table="Orders") for n in range(36, 41)], reason="Refused")
    engine = namespace.engine()
    result = engine.run(order(filter=MessageFilter(reason="messagetoolarge")), "replay", ADA, Watch())
    assert (result.matched, result.replayed) == (5, 5)
    assert numbers(namespace.waiting) == [31, 32, 33, 34, 35]
    result = engine.run(order(filter=MessageFilter(table="dbo.orders", text="name 38")), "replay", ADA, Watch())
    assert (result.matched, result.replayed) == (1, 1)
    result = engine.run(order(filter=MessageFilter(event_id="event-7")), "replay", ADA, Watch())
    assert result.replayed == 1
    [chosen] = [each.sequence for each in namespace.dead if numbers([each]) == [20]]
    assert engine.run(order(sequences=[chosen]), "replay", ADA, Watch()).replayed == 1
    future = datetime.now(UTC) + timedelta(hours=1)
    assert engine.run(order(filter=MessageFilter(since=future)), "replay", ADA, Watch()).matched == 0
    assert numbers(namespace.waiting)[5:] == [38, 7, 20]
    assert sorted(numbers(namespace.dead)) == [n for n in range(1, 41) if n not in (7, 20, 38) and not 31 <= n <= 35]


def test_what_cannot_be_sent_again_is_left_with_its_reason(namespace: Namespace) -> None:
    namespace.bury([change(1), change(2, oversize=True), change(3, dstream_replays=3), change(4)])
    result = namespace.engine().run(order(), "replay", ADA, Watch())
    assert (result.matched, result.replayed, result.left_count) == (4, 2, 2)
    assert ["stand-in" in each.why for each in result.left] == [True, False]
    assert "3 times" in result.left[1].why
    assert numbers(namespace.dead) == [2, 3]
    again = namespace.engine().run(order(most_replays=4), "replay", ADA, Watch())
    assert again.replayed == 1
    assert numbers(namespace.waiting) == [1, 4, 3]


def test_a_change_that_was_taken_out_of_its_pack_loses_its_marks(namespace: Namespace) -> None:
    namespace.bury([change(1, dead_letter_reason="Refused", dead_letter_description="why")])
    namespace.engine().run(order(), "replay", ADA, Watch())
    [found] = namespace.waiting
    assert not {"dead_letter_reason", "dead_letter_description"} & set(found.message.application_properties)


def test_three_dead_letters_of_one_row_are_safe_together(namespace: Namespace) -> None:
    namespace.rows = Rows({1: newer(2, 3), 2: newer(3), 3: Newer(Sent.NO)})
    namespace.bury([change(n) for n in (1, 2, 3)])
    result = namespace.engine().run(order(safe=True), "replay", ADA, Watch())
    assert (result.replayed, result.left_count) == (3, 0)
    assert numbers(namespace.waiting) == [1, 2, 3]


def test_what_is_older_than_what_was_delivered(namespace: Namespace) -> None:
    namespace.rows = Rows({1: newer(2), 3: Newer(Sent.UNKNOWN, why="its row is gone from the change table")})
    namespace.bury([change(n) for n in (1, 3, 5)])
    engine = namespace.engine()
    safe = engine.run(order(safe=True), "replay", ADA, Watch())
    assert (safe.replayed, safe.left_count) == (1, 2)
    assert [each.why for each in safe.left] == [
        f"a newer change of its row was sent (LSN {2:020x})",
        "its row is gone from the change table",
    ]
    warned = engine.run(order(), "replay", ADA, Watch())
    assert (warned.replayed, warned.left_count) == (2, 0)
    assert any("2 dead letters were sent although a newer change" in each for each in warned.warnings)
    namespace.rows = None
    namespace.bury([change(9)])
    assert "SQL Server is not asked" in engine.run(order(safe=True), "replay", ADA, Watch()).left[0].why


def test_dead_letters_of_a_subscription_go_to_the_topic_and_the_others_are_named(namespace: Namespace) -> None:
    namespace.bury([replace(change(n), session_id=None) for n in (1, 2)], subscription="sub1", reason="Mine")
    entity = f"topic/{PERSONS}/sub1"
    result = namespace.engine().run(order(entity), "replay", ADA, Watch())
    assert result.replayed == 2
    assert any("other subscriptions get it again: sub2" in each for each in result.warnings)
    assert namespace.lying(Shelf(PERSONS, "sub1", dead=True)) == []
    assert numbers(namespace.lying(Shelf(PERSONS, "sub1"))) == [1, 2]
    assert numbers(namespace.lying(Shelf(PERSONS, "sub2"))) == [1, 2, 1, 2]


def test_a_purge_removes_and_writes_down_what(namespace: Namespace) -> None:
    namespace.bury([change(n) for n in range(1, 8)], reason="Oversize")
    namespace.bury([change(n) for n in range(8, 11)], reason="Refused")
    engine = namespace.engine()
    chosen = order(filter=MessageFilter(reason="Oversize"))
    assert (engine.plan(chosen, "purge", Watch()).purged, len(namespace.dead)) == (7, 10)
    result = engine.run(chosen, "purge", ADA, Watch())
    assert (result.matched, result.purged, result.complete) == (7, 7, True)
    assert numbers(namespace.dead) == [8, 9, 10]
    lines = namespace.audit.lines(after=None, most=10).items
    named = [each["message_id"] for line in lines for each in line.details.get("removed", ())]
    assert sorted(named) == sorted(f"event-{n}" for n in range(1, 8))
    assert "name" not in lines[1].model_dump_json()


def test_a_second_run_of_the_same_dead_letters_sends_nothing_twice(namespace: Namespace) -> None:
    """As after a kill between sending and completing: the same ids again."""
    namespace.bury([change(n) for n in range(1, 6)])
    sender = namespace.bus.sender(QUEUE)
    sender.send([copy_of(each) for each in namespace.dead[:3]])
    sender.close()
    result = namespace.engine().run(order(), "replay", ADA, Watch())
    assert result.replayed == 5
    assert numbers(namespace.waiting) == [1, 2, 3, 4, 5]


def test_it_is_stopped_between_batches(namespace: Namespace) -> None:
    namespace.bury([change(n) for n in range(1, 6)])
    watch = Watch()
    watch.stop.set()
    result = namespace.engine().run(order(), "replay", ADA, watch)
    assert (result.replayed, result.complete) == (0, False)
    assert len(namespace.dead) == 5
