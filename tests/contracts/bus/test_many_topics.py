"""A router of many topics, on an emulated namespace: how many connections it holds, and what one topic that is away costs the others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import TransientError
from common.names import TableName
from emulators.servicebus.description import QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from router.app import run
from router.tally import AWAY_SECONDS
from tests.contracts.bus.test_router import ORDERS, PERSONS, QUICK, change, left, put, read, routed, routing, settings
from tests.contracts.bus.test_router_faults import numbered, waited_for
from tests.contracts.bus.test_workers import Router

TOPICS = 300


def established(port: int) -> int:
    """Connections of this machine's processes to `port` (https://www.kernel.org/doc/Documentation/networking/proc_net_tcp.txt)."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(state == "01" and int(remote.split(":")[1], 16) == port for _, _, remote, state, *_ in lines)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[tuple[Router, ServiceBusEmulator]]:
    with ServiceBusEmulator() as emulator:
        emulator.admin.create(
            "ingest-queue", QueueDescription(requires_session=True, requires_duplicate_detection=True)
        )
        for number in range(TOPICS):
            emulator.admin.create(f"srv.db.t{number}.events", TopicDescription(requires_duplicate_detection=True))
            emulator.admin.create(f"srv.db.t{number}.events/Subscriptions/sub1", SubscriptionDescription())
        names = ", ".join(f'"T{number}"' for number in range(TOPICS))
        started = Router(tmp_path, emulator, workers=2, change=lambda text: text.replace('"Persons"', names))
        try:
            yield started, emulator
        finally:
            started.process.kill()
            started.process.wait()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts connections in /proc")
def test_few_connections_are_held_for_many_topics_of_which_few_are_used(
    router: tuple[Router, ServiceBusEmulator],
) -> None:
    started, emulator = router
    waited_for(lambda: started.log.read_text().count("router started") == 2, 90)
    used = [f"srv.db.t{number}.events" for number in range(3)]
    for topic in used:
        put(emulator, [change(topic, number, topic) for number in range(20)])
    waited_for(lambda: left(emulator) == (0, 0), 60)
    # Two workers with two slots each, and three topics that either may have sent to; a sender of this test may be closing yet.
    waited_for(lambda: established(emulator.port) <= 2 * (2 + len(used)) + 2, 60)
    for topic in used:
        assert [found.message_id for found in read(emulator, topic, 20)] == numbered(topic, 20)


def test_a_topic_that_is_switched_off_at_the_start_holds_up_itself_alone(
    emulator: ServiceBusEmulator, capsys: pytest.CaptureFixture[str]
) -> None:
    emulator.admin.create(ORDERS, TopicDescription(status="SendDisabled", requires_duplicate_detection=True))
    put(emulator, [change(topic, number, topic) for topic in (PERSONS, ORDERS) for number in range(20)])
    with routing(settings(emulator), routed(40)) as tally:
        waited_for(lambda: tally.routed[PERSONS] == 20)
        waited_for(lambda: ORDERS in tally.figures().topics_away, AWAY_SECONDS + 60)
        assert ORDERS in (tally.figures().ready() or "")
        emulator.admin.update(ORDERS, TopicDescription(requires_duplicate_detection=True))
    assert [found.message_id for found in read(emulator, ORDERS, 20)] == numbered(ORDERS, 20)
    assert left(emulator) == (0, 0)
    said = capsys.readouterr().out
    assert said.count("topic unavailable") == 1
    assert "enable the entity" in said


def test_a_start_where_every_topic_is_switched_off_fails(emulator: ServiceBusEmulator) -> None:
    emulator.admin.create(ORDERS, TopicDescription(status="SendDisabled", requires_duplicate_detection=True))
    chosen = settings(emulator, topics={ORDERS: TableName("dbo", "Orders")})
    with pytest.raises(TransientError, match="orders"):
        run(chosen, threading.Event(), pace=QUICK)
