"""Changes of a table that the router's configuration does not have yet, on an emulated namespace: a ConfigMap that comes late, a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import ConfigurationError
from common.names import Origin, TableName
from common.table_selection import TablePattern, TableSelection
from emulators.servicebus.description import SubscriptionDescription, TopicDescription
from emulators.servicebus.server import ServiceBusEmulator
from router.app import run
from router.settings import RouterSettings
from router.tally import Tally
from tests.contracts.bus.test_router import PERSONS, QUICK, change, left, put, read, settings
from tests.contracts.bus.test_router_faults import numbered, waited_for

INVOICES = "srv.db.invoices.events"


class File:
    """The router's configuration as it says `now`: settings, or why it cannot be used. `looks`: how often it was asked."""

    def __init__(self, now: RouterSettings | ConfigurationError) -> None:
        self.now = now
        self.looks = 0

    def __call__(self) -> RouterSettings:
        self.looks += 1
        if isinstance(self.now, ConfigurationError):
            raise self.now
        return self.now


@contextmanager
def routing(start: RouterSettings, file: File) -> Iterator[Tally]:
    stop, tally, ended = threading.Event(), Tally(), list[int]()
    thread = threading.Thread(target=lambda: ended.append(run(start, stop, pace=QUICK, tally=tally, latest=file)))
    thread.start()
    try:
        yield tally
    finally:
        stop.set()
        thread.join(30)
    assert ended == [0]


def with_invoices(known: RouterSettings) -> RouterSettings:
    return known.model_copy(update={"topics": {**known.topics, INVOICES: TableName("dbo", "Invoices")}})


def test_a_configuration_that_comes_late_loses_no_change_and_no_order(emulator: ServiceBusEmulator) -> None:
    known = settings(emulator)
    file = File(known)
    put(emulator, [change(INVOICES, number, INVOICES) for number in range(30)])
    put(emulator, [change(PERSONS, number, PERSONS) for number in range(5)])
    with routing(known, file) as tally:
        waited_for(lambda: tally.routed[PERSONS] == 5)
        waited_for(lambda: file.looks >= 2)
        file.now = ConfigurationError(["dstream.hcl:3: half a file"])
        looks = file.looks
        waited_for(lambda: file.looks >= looks + 2)
        assert left(emulator) == (30, 0)
        file.now = with_invoices(known)
        waited_for(lambda: tally.routed[INVOICES] == 30)
    assert left(emulator) == (0, 0)
    assert [found.message_id for found in read(emulator, INVOICES, 30)] == numbered(INVOICES, 30)


def test_a_restart_while_changes_wait_for_their_table_gives_them_back_in_order(emulator: ServiceBusEmulator) -> None:
    known = settings(emulator)
    file = File(known)
    put(emulator, [change(INVOICES, number, INVOICES) for number in range(30)])
    with routing(known, file):
        waited_for(lambda: file.looks >= 1)
    assert left(emulator) == (30, 0)
    with routing(with_invoices(known), file) as tally:
        waited_for(lambda: tally.routed[INVOICES] == 30)
    assert [found.message_id for found in read(emulator, INVOICES, 30)] == numbered(INVOICES, 30)
    assert left(emulator) == (0, 0)


def test_a_table_whose_topic_cannot_be_had_waits_as_any_topic_that_is_away(emulator: ServiceBusEmulator) -> None:
    """With provision = "none" its topic comes later than the configuration: its changes are no poison."""
    with routing(settings(emulator), File(settings(emulator))):
        waited_for(lambda: len(list(emulator.admin.topics())) == 2)
    known = settings(emulator, provision="none", unknown_grace="0s")
    put(emulator, [change(INVOICES, number, INVOICES) for number in range(5)])
    with routing(known, File(with_invoices(known))) as tally:
        waited_for(lambda: tally.retries[INVOICES] >= 1)
        emulator.admin.create(INVOICES, TopicDescription())
        emulator.admin.create(f"{INVOICES}/Subscriptions/sub1", SubscriptionDescription())
        waited_for(lambda: tally.routed[INVOICES] == 5)
    assert [found.message_id for found in read(emulator, INVOICES, 5)] == numbered(INVOICES, 5)
    assert left(emulator) == (0, 0)


def test_a_matched_table_waits_for_the_topic_that_somebody_else_makes_and_keeps_its_order(
    emulator: ServiceBusEmulator,
) -> None:
    """The router knows no table by its name, and has no grace: a pattern is enough."""
    with routing(settings(emulator), File(settings(emulator))):
        waited_for(lambda: len(list(emulator.admin.topics())) == 2)
    matching = {
        "selection": TableSelection.of([TablePattern.parse("Inv*")]),
        "origin": Origin("srv", "db"),
        "topics": {},
    }
    known = settings(emulator, provision="none", unknown_grace="0s").model_copy(update=matching)
    put(emulator, [change(INVOICES, number, INVOICES) for number in range(5)])
    with routing(known, File(known)) as tally:
        waited_for(lambda: tally.retries[INVOICES] >= 1)
        assert left(emulator) == (5, 0)
        emulator.admin.create(INVOICES, TopicDescription())
        emulator.admin.create(f"{INVOICES}/Subscriptions/sub1", SubscriptionDescription())
        waited_for(lambda: tally.routed[INVOICES] == 5)
    assert [found.message_id for found in read(emulator, INVOICES, 5)] == numbered(INVOICES, 5)
    assert left(emulator) == (0, 0)


def test_what_no_configuration_names_after_the_grace_is_dead_lettered(emulator: ServiceBusEmulator) -> None:
    known = settings(emulator, unknown_grace="0s")
    put(emulator, [change(INVOICES, 1, INVOICES)])
    with routing(known, File(known)) as tally:
        waited_for(lambda: tally.dead_lettered == {"UnknownDestination": 1})
    assert left(emulator) == (0, 1)


def test_a_topic_that_no_table_could_have_is_not_waited_for(emulator: ServiceBusEmulator) -> None:
    known = settings(emulator, topics_begin=("srv.db.",), create_under=())
    put(emulator, [change("elsewhere", 1, PERSONS), change(PERSONS, 2, PERSONS)])
    with routing(known, File(known)) as tally:
        waited_for(lambda: tally.routed[PERSONS] == 1)
    assert tally.dead_lettered == {"UnknownDestination": 1}
