"""The slots of a process: all of them end at a stop side by side, and nothing that hangs holds it up."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence

import pytest
from structlog.testing import capture_logs

from common.bus.ports import Delivery
from router.publishing.publishers import Publishers
from router.receiving import slots
from router.receiving.pace import Pace
from router.receiving.slots import Slots
from router.tally import Tally
from tests.unit.router.test_restarts import SETTINGS


class Lane:
    """A session in which nothing comes until the stop. Its close does what it is told to."""

    def __init__(self, session_id: str, stop: threading.Event, closing: Callable[[], object]) -> None:
        self.session_id = session_id
        self._stop = stop
        self._closing = closing

    def receive(self, *, max_count: int, max_wait: float) -> Sequence[Delivery]:
        self._stop.wait(60)
        return []

    def settle_many(self, deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
        return []

    def dead_letter(self, delivery: Delivery, *, reason: str, description: str) -> None: ...

    def release(self, deliveries: Sequence[Delivery]) -> None: ...

    def renew(self, deliveries: Sequence[Delivery]) -> None: ...

    def lock_left(self, deliveries: Sequence[Delivery]) -> float:
        return 60.0

    def state(self) -> bytes | None:
        return None

    def set_state(self, state: bytes | None) -> None: ...

    def close(self) -> None:
        self._closing()


class Lanes:
    """A session for whoever asks; sets `taken` with the last of so many."""

    def __init__(self, count: int, stop: threading.Event, closing: Callable[[], object]) -> None:
        self.taken = threading.Event()
        self._numbers = itertools.count(1)
        self._count, self._stop, self._closing = count, stop, closing

    def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Lane:
        number = next(self._numbers)
        if number == self._count:
            self.taken.set()
        return Lane(f"lane-{number}", self._stop, self._closing)


def ended(count: int, closing: Callable[[], object]) -> int:
    """What the run of so many slots, each with a session, returns at a stop."""
    stop, results = threading.Event(), list[int]()
    lanes = Lanes(count, stop, closing)
    settings = SETTINGS.model_copy(update={"slots": count, "workers": 1})
    made = Slots(
        settings, lanes, {"default": Publishers([])}, stop, Pace(), Tally(), ahead=lambda: 0.0, news=lambda: None
    )
    running = threading.Thread(target=lambda: results.append(made.run()))
    running.start()
    assert lanes.taken.wait(60)
    stop.set()
    running.join(60)
    return results[0]


def test_as_many_slots_as_may_be_close_their_sessions_side_by_side() -> None:
    together = threading.Barrier(512)
    assert ended(512, lambda: together.wait(60)) == 0
    assert not together.broken


def test_a_stop_does_not_wait_for_slots_that_cannot_close_their_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "STOP_WITHIN", 0.1)
    over = threading.Event()
    with capture_logs() as logs:
        status = ended(16, lambda: over.wait(60))
    over.set()
    assert status == 1
    assert [(line["event"], line["slots"] >= 16) for line in logs] == [("slots did not stop in time", True)]


def test_a_call_that_begins_after_the_others_were_cut_is_cut_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CUT_AFTER", 0.1)
    monkeypatch.setattr(slots, "CUT_AGAIN", 0.1)
    twice = threading.Barrier(2)
    cuts = itertools.count(1)

    def cut() -> None:
        if next(cuts) == 2:
            twice.wait(30)

    stop, results = threading.Event(), list[int]()
    lanes = Lanes(1, stop, lambda: twice.wait(30))
    made = Slots(
        SETTINGS.model_copy(update={"slots": 1}),
        lanes,
        {"default": Publishers([])},
        stop,
        Pace(),
        Tally(),
        ahead=lambda: 0.0,
        news=lambda: None,
        cut=cut,
        succeeded=lambda: True,
    )
    running = threading.Thread(target=lambda: results.append(made.run()))
    running.start()
    assert lanes.taken.wait(60)
    stop.set()
    running.join(60)
    assert results == [0]
    assert not twice.broken


def test_a_slot_that_dies_of_a_defect_ends_the_router() -> None:
    class Defective(Lanes):
        def open(self, *, max_wait: float, give_up: Callable[[], bool] | None = None) -> Lane:
            raise ValueError("a defect")

    stop = threading.Event()
    made = Slots(
        SETTINGS,
        Defective(1, stop, lambda: None),
        {"default": Publishers([])},
        stop,
        Pace(),
        Tally(),
        ahead=lambda: 0.0,
        news=lambda: None,
    )
    with pytest.raises(ValueError, match="a defect"):
        made.run()
    assert stop.is_set()
