"""An error of a sender that nobody foresaw: it holds up its own topic, is logged once, and ends nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from common.bus.ports import SendInterrupted, TimeLeft
from common.errors import TransientError
from common.message import Message
from router.publishing.publisher import Publisher

MESSAGES = [Message(b"{}", "1")]


class Defective:
    """Raises what nobody foresaw as long as `fails`."""

    def __init__(self) -> None:
        self.fails = True
        self.sent = 0

    def _work(self) -> None:
        if self.fails:
            raise KeyError("a value of a row")

    def open(self) -> None:
        self._work()

    def close(self) -> None:
        self._work()

    def batch_bytes(self) -> int:
        self._work()
        return 1000

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        self._work()
        self.sent += len(messages)


def test_the_topic_is_unavailable_with_the_place_and_works_again() -> None:
    now = [0.0]
    sender = Defective()
    publisher = Publisher("t", sender, clock=lambda: now[0])
    with capture_logs() as lines:
        for _ in range(2):
            with pytest.raises(SendInterrupted, match=r"KeyError, raised in _work, test_unforeseen\.py"):
                publisher.send(MESSAGES)
            now[0] += 60
        sender.fails = False
        assert publisher.send(MESSAGES)
    said = [line for line in lines if line["event"] == "topic unavailable"]
    assert len(said) == 1
    assert "row" not in str(lines)
    assert "topic available again" in [line["event"] for line in lines]
    assert sender.sent == 1


def test_opening_and_proving_it_fail_as_they_do_for_any_fault() -> None:
    publisher = Publisher("t", Defective(), clock=lambda: 0.0)
    with pytest.raises(TransientError, match="opening t: KeyError"):
        publisher.open()
    publisher.prove()
    assert publisher.pause() > 0
