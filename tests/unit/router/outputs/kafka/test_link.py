"""Who gives records to a producer, and who throws it away meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from router.outputs.kafka import link as module
from router.outputs.kafka.link import Batch, Link, masked
from router.outputs.kafka.links import Links
from router.outputs.kafka.records import Record

MANY = 50


class Producer:
    """Of confluent_kafka, as far as a link uses it. Takes everything, and reports nothing before it is purged."""

    def __init__(self, settings: object) -> None:
        self.calls: list[str] = []
        self.at_produce: Callable[[int], None] = lambda given: None

    def produce(self, topic: str, value: object, key: object, **rest: Any) -> None:
        if "close" in self.calls:
            raise RuntimeError("Producer has been closed")
        self.at_produce(self.calls.count("produce"))
        self.calls.append("produce")

    def purge(self, **how: bool) -> None:
        self.calls.append("purge")

    def poll(self, seconds: float) -> None:
        time.sleep(0.001)

    def close(self) -> None:
        self.calls.append("close")

    def __len__(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def _no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Producer", Producer)


def linked() -> tuple[Link, Producer]:
    link = Link({}, masked(()))
    producer = link._producer
    assert isinstance(producer, Producer)
    return link, producer


def piece() -> dict[int, Record]:
    return {at: Record(b"k", b"v", [], 2, 2) for at in range(MANY)}


def given(link: Link, batch: Batch) -> str:
    fault = link.give("t", piece(), batch, time.monotonic() + 60)
    return "all" if fault is None else "ended by another" if fault.is_consequence else fault.name


def test_nothing_is_given_behind_a_purge_nor_to_a_producer_that_is_closed() -> None:
    link, producer = linked()
    batch = Batch(masked(()))
    ends = threading.Thread(target=link.throw_away)

    def at(count: int) -> None:
        if count == 3:
            ends.start()
            deadline = time.monotonic() + 60
            while not link._ending:
                assert time.monotonic() < deadline
                time.sleep(0.001)

    producer.at_produce = at
    assert link.begin(batch)

    assert given(link, batch) == "ended by another"
    ends.join(60)

    assert "purge" in producer.calls
    assert "produce" not in producer.calls[producer.calls.index("purge") :]
    assert producer.calls.count("produce") < MANY
    assert given(link, batch) == "ended by another"  # and never RuntimeError


def test_a_producer_that_is_closed_is_the_end_of_a_link_and_no_other_error() -> None:
    link, producer = linked()
    producer.calls.append("close")

    assert given(link, Batch(masked(()))) == "ended by another"


def test_the_next_link_begins_without_an_end_to_the_batches_on_the_one_in_doubt() -> None:
    links = Links(lambda: linked()[0])
    healthy, doubtful, later = (Batch(masked(())) for _ in range(3))
    link = links.begin(healthy)
    assert links.begin(doubtful) is link
    link.retire()  # what a doubt begins with

    assert links.begin(later) is not link

    assert not link._over.is_set()
    assert given(link, healthy) == "all"


def test_a_cut_ends_batches_on_a_link_that_is_being_given_up_too() -> None:
    links = Links(lambda: linked()[0])
    slow, doubtful, later = (Batch(masked(())) for _ in range(3))
    link = links.begin(slow)
    links.begin(doubtful)
    doubtful.complete(0)
    doubts = threading.Thread(target=links.doubt, args=(link, doubtful))
    doubts.start()
    while link.is_usable:
        time.sleep(0.001)
    links.begin(later)

    links.cut()

    assert slow.was_cut
    assert later.was_cut
    doubts.join(60)
    assert not doubts.is_alive()
