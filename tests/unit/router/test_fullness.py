"""When it is told that the queue or a topic fills, and when nothing is asked any more."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from structlog.testing import capture_logs

from common.bus.ports import Storage
from common.errors import PermanentError, TransientError
from router.fullness import Fullness
from router.tally import Tally


class Namespace:
    """`shares`: what is used of 100 bytes, by entity; `fault`: what the next look meets."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.fault: Exception | None = None
        self.asked = 0

    def __call__(self) -> Mapping[str, Storage]:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return {entity: Storage(used, 100) for entity, used in self.used.items()}


def test_each_of_half_and_nearly_full_is_told_once_until_there_is_room_again() -> None:
    namespace, tally = Namespace(), Tally()
    fullness, told = Fullness([namespace], tally), list[tuple[int, list[str]]]()
    for used in (49, 50, 60, 49, 55, 90, 95, 60, 39, 50):
        namespace.used = {"queue ingest": used, "topic quiet": 1}
        with capture_logs() as logs:
            fullness.look()
        told.append((used, [line["log_level"] for line in logs]))
        for line in logs:
            event = "entity has room again" if line["log_level"] == "info" else "entity is filling up"
            assert (line["event"], line["entity"]) == (event, "queue ingest")
        assert tally.figures().fills == {"queue ingest": used / 100, "topic quiet": 0.01}
    assert [each for each in told if each[1]] == [(50, ["warning"]), (90, ["error"]), (39, ["info"]), (50, ["warning"])]


def test_messages_that_wait_are_those_of_the_queue() -> None:
    """A topic has none: its subscriptions hold them."""
    tally = Tally()
    Fullness([lambda: {"queue q": Storage(1, 100, 7, 2)}, lambda: {"topic t": Storage(1, 100)}], tally).look()
    assert tally.figures().waiting == {"active": 7, "dead_letter": 2}


def test_without_the_right_nothing_is_said_and_nothing_asked_again() -> None:
    refused, other = Namespace(), Namespace()
    refused.fault = PermanentError("Manage,EntityRead claims required")
    other.used = {"topic t": 60}
    fullness = Fullness([refused, other], Tally())
    with capture_logs() as logs:
        for _ in range(3):
            fullness.look()
    assert (refused.asked, other.asked) == (1, 3)
    assert [line["log_level"] for line in logs if line["log_level"] != "debug"] == ["warning"]
    alone = Fullness([refused], Tally(), seconds=0.01)
    alone.run(threading.Event())  # it ends by itself


def test_a_look_that_fails_for_a_moment_is_no_news() -> None:
    namespace = Namespace()
    namespace.fault = TransientError("no answer from the management API")
    fullness = Fullness([namespace], Tally())
    with capture_logs() as logs:
        fullness.look()
        namespace.fault, namespace.used = None, {"queue q": 51}
        fullness.look()
    assert [line["log_level"] for line in logs if line["log_level"] != "debug"] == ["warning"]
