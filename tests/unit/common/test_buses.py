"""The type in the settings chooses the adapter of the port `Bus`, and everything goes through the port."""

from __future__ import annotations

from contextlib import closing
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from common import buses
from common.bus.ports import Bus, Need, Provision, QueueNeed, TopicNeed
from common.check import Outcome
from common.servicebus.namespace import MOST_CONNECTIONS, ServiceBus
from common.servicebus.settings import ServiceBusQueue, ServiceBusSettings
from router.outputs.registry import OutputBlock
from tests.fakes.bus import FakeBroker, as_bus

STRING = "Endpoint=sb://NS.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey=hunter2-hunter2"


def settings(block: Any = buses.Connection, **given: object) -> Any:
    return TypeAdapter(block).validate_python({"connection_string": STRING, **given})


@pytest.mark.parametrize("given", [{}, {"type": "servicebus"}, {"type": "azure_service_bus"}])
def test_service_bus_is_the_default_and_has_two_names(given: dict[str, object]) -> None:
    assert type(settings(**given)) is ServiceBusSettings
    queue = settings(buses.Queue, name="q", **given)
    assert type(queue) is ServiceBusQueue
    assert (queue.type, queue.name) == ("azure_service_bus", "q")


def test_a_type_that_does_not_exist_names_those_that_do_and_no_secret() -> None:
    with pytest.raises(ValidationError) as refused:
        settings(type="kafka")
    assert "azure_service_bus, servicebus" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_bus_that_can_hold_the_queue_is_reached_by_the_same_settings() -> None:
    output, connection, queue = (get_args(block)[1].models for block in (OutputBlock, buses.Connection, buses.Queue))
    assert queue.keys() == connection.keys()
    assert connection.keys() <= output.keys()
    assert all(issubclass(queue[name], connection[name]) for name in queue)
    assert all(issubclass(output[name], connection[name]) for name in connection)


def test_the_settings_open_their_adapter() -> None:
    bus = buses.bus_of(settings())
    assert isinstance(bus, ServiceBus)
    assert (bus.host, bus.hostname) == ("NS.servicebus.windows.net", "ns.servicebus.windows.net")
    assert bus.most_connections == MOST_CONNECTIONS
    bus.close()


def test_an_emulators_port_tells_two_of_them_apart_but_is_no_part_of_the_hostname() -> None:
    local = "Endpoint=sb://localhost:{};SharedAccessKeyName=p;SharedAccessKey=k;UseDevelopmentEmulator=true"
    first, second = (buses.bus_of(settings(connection_string=local.format(port))) for port in (5672, 5673))
    assert (first.host, second.host) == ("localhost:5672", "localhost:5673")
    assert first.hostname == second.hostname == "localhost"


def outcomes(bus: Bus) -> list[Outcome]:
    found = bus.entities.topic_findings(["t"], subscriptions=[], provision="none", queue=None)
    return [each.outcome for each in found]


def test_the_fake_makes_and_checks_entities_through_the_port() -> None:
    bus = as_bus(FakeBroker())
    assert outcomes(bus) == [Outcome.FAIL]
    needs: list[Need] = [QueueNeed("q", sessions=True), TopicNeed("t")]
    for how in get_args(Provision):
        assert bus.entities.provision(needs, how=how) == ()
    with closing(bus.sender("t")) as sender:
        sender.open()
    assert outcomes(bus) == [Outcome.OK]
    assert bus.entities.queue_state("q") is not None
