"""Two outputs, each a namespace of its own, through the unmodified SDK: one is away while the other goes on, and neither loses anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import DStreamError
from emulators.servicebus.faults.catalogue import SendsRefused
from emulators.servicebus.server import ServiceBusEmulator
from router.routing.settings import RouteBlock
from router.settings import RouterSettings
from tests.contracts.bus.test_router import ORDERS, PERSONS, change, left, put, read, routing, settings
from tests.contracts.bus.test_router_faults import numbered, waited_for


@pytest.fixture
def far() -> Iterator[ServiceBusEmulator]:
    with ServiceBusEmulator() as running:
        yield running


def to_both(near: ServiceBusEmulator, far: ServiceBusEmulator, **changes: Any) -> RouterSettings:
    stream = settings(far).output.model_copy(update={"name": "stream"})
    both = RouteBlock.model_validate({"from": ("*",), "to": ("default", "stream")})
    return settings(near, outputs=(stream,), route=(both,), **changes)


def ids(emulator: ServiceBusEmulator, topic: str, count: int) -> list[str | None]:
    return [found.message_id for found in read(emulator, topic, count)]


def test_an_output_that_is_away_holds_up_no_other_and_gets_everything_in_order(
    emulator: ServiceBusEmulator, far: ServiceBusEmulator
) -> None:
    count = 3_000  # more than a lane has room for
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(count)])
    put(emulator, [change(ORDERS, number, ORDERS) for number in range(10)])
    everything = 2 * (count + 10)

    def near(topic: str) -> int:
        try:
            return emulator.admin.get(f"{topic}/Subscriptions/sub1").counts.active
        except DStreamError:
            return 0

    with routing(to_both(emulator, far), lambda tally: tally.routed.total() >= everything, seconds=60) as tally:
        waited_for(lambda: bool(tally.topics))
        with far.inject(SendsRefused(PERSONS, "amqp:internal-error")):
            waited_for(lambda: near(PERSONS) == count and near(ORDERS) == 10, seconds=60)
            waited_for(lambda: tally.behind() == {"stream": 1})
            assert left(emulator)[0] >= count
        waited_for(lambda: left(emulator) == (0, 0), seconds=60)
        waited_for(lambda: tally.behind() == {})
    for namespace in (emulator, far):
        assert ids(namespace, PERSONS, count) == numbered(PERSONS, count)
        assert ids(namespace, ORDERS, 10) == numbered(ORDERS, 10)


def test_what_an_output_has_is_known_to_the_next_router(emulator: ServiceBusEmulator, far: ServiceBusEmulator) -> None:
    """By the session's state: the topics would drop copies, so the routers are asked what they sent."""
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(50)])
    chosen = to_both(emulator, far)
    with (
        far.inject(SendsRefused(PERSONS, "amqp:internal-error")),
        routing(chosen, lambda tally: tally.routed.total() == 50 and sum(tally.retries.values()) > 0),
    ):
        pass
    with routing(chosen, lambda tally: left(emulator) == (0, 0)) as tally:
        waited_for(lambda: left(emulator) == (0, 0))
    assert tally.routed.total() == 50
    assert ids(far, PERSONS, 50) == numbered(PERSONS, 50)
