"""`dstream dlq replay --safe` with both stores: several dead letters of one row go together, unless a newer change was delivered."""

from __future__ import annotations

from collections.abc import Sequence

from desk.documents.messages import MessageFilter
from tests.contracts.operating.test_stories import UPDATE, World, change, world

__all__ = ["world"]


def buried(world: World, count: int) -> None:
    """What lies in the queue becomes dead letters."""
    [session] = {str(each.message.session_id) for each in world.captured() if each.message is not None}
    left = count
    while left:
        for receiver, message in world.received(world.desk.place.queue, session_id=session):
            receiver.dead_letter_message(message, reason="Refused")
            left -= 1


def arrived(world: World) -> Sequence[str]:
    """The event ids of what lies in the queue, in its order."""
    listed = world.messages().page("queue", dead=False, chosen=MessageFilter(), after=None, most=50)
    return [str(each.event_id) for each in listed.items]


def test_all_dead_letters_of_a_row_go_in_their_order_unless_a_newer_change_was_delivered(world: World) -> None:
    change(world, UPDATE, UPDATE.replace("N'", "N'again "))
    changes = world.captured()
    assert len(changes) == 3
    world.send(*changes)
    world.offset(changes[-1])
    buried(world, 3)
    replay = (
        "dlq",
        "replay",
        "queue",
        "--safe",
        "--json",
        "--audit-file",
        str(world.desk.place.folder / "audit.jsonl"),
    )

    alone = world.desk.run(*replay, "--event-id", changes[0].event_id)
    assert (alone.status, alone.document["left_count"]) == (1, 1), "nobody sends the newer ones"
    together = world.desk.run(*replay)
    assert (together.status, together.document["replayed"], together.document["warnings"]) == (0, 3, [])
    assert arrived(world) == [each.event_id for each in changes]

    buried(world, 3)
    world.desk.place.execute(UPDATE.replace("N'", "N'newest "))
    world.desk.insert(990)
    newest = world.captured()[-1]
    assert newest.event_id not in [each.event_id for each in changes]
    world.offset(newest)
    late = world.desk.run(*replay)
    assert (late.status, late.document["replayed"], late.document["left_count"]) == (1, 0, 3)
    assert all("a newer change of its row was sent" in each["why"] for each in late.document["left"])
