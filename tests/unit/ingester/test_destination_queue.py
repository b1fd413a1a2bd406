"""The queue at a start: it is made and opened, and a service that says nothing does not hold up a stop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from common.errors import Stopped
from ingester import destination
from ingester.destination import open_queue
from tests.fakes.bus import FakeBroker
from tests.unit.ingester.driver.test_reload import settings


def test_the_queue_is_made_and_opened_on_any_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = FakeBroker()
    monkeypatch.setattr(destination, "bus_of", lambda settings: bus)
    started = settings("Persons")
    open_queue(started, threading.Event())
    assert bus.entity(started.queue.name).sessions is True


@pytest.mark.parametrize("mute", ["management", "queue"])
def test_a_stop_waits_for_nobody_who_says_nothing(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, asked, never = threading.Event(), threading.Event(), threading.Event()

    class Mute:
        def __init__(self, *given: Any) -> None:
            self.entities = self

        def provision(self, needs: Any, *, how: str, stop: threading.Event) -> None:
            if mute == "management":
                self.open()

        def sender(self, name: str) -> Mute:
            return self

        def open(self) -> None:
            asked.set()
            never.wait(120)

        def close(self) -> None: ...

    monkeypatch.setattr(destination, "bus_of", Mute)

    def ask_to_stop() -> None:
        asked.wait(60)
        stop.set()

    threading.Thread(target=ask_to_stop, daemon=True).start()
    try:
        with pytest.raises(Stopped):
            open_queue(settings("Persons"), stop)
    finally:
        never.set()
