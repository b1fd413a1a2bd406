"""The block of an output on Event Hubs, its places, and what a person is told to make."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from common.names import Origin, TableName
from router.outputs.azure_event_hubs.plan import planned
from router.outputs.azure_event_hubs.settings import LONGEST_NAME, EventHubsOutput
from router.outputs.port import Stream

ORIGIN = Origin("server", "Shop")
SECRET = "s3cret"
KEY = f"Endpoint=sb://hubs.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey={SECRET}"


def settings(**given: Any) -> EventHubsOutput:
    shape = {"type": "azure_event_hubs", "namespace": "hubs.servicebus.windows.net", "event_hub": "changes"}
    return EventHubsOutput.model_validate(shape | given)


def by_key(**given: Any) -> EventHubsOutput:
    shape = {"type": "azure_event_hubs", "connection_string": KEY, "event_hub": "changes"}
    return EventHubsOutput.model_validate(shape | given)


def test_one_hub_for_all_tables() -> None:
    places = {settings().place(ORIGIN, f"t{each}", TableName("dbo", f"T{each}")) for each in range(3)}
    assert places == {"changes"}


def test_a_hub_a_table_has_a_name_that_the_service_takes() -> None:
    of_tables = settings(event_hub="{database}.{schema}.{table}")
    assert of_tables.place(ORIGIN, "t", TableName("Sales", "Order Details")) == "shop.sales.order_x0020_details"
    long = of_tables.place(ORIGIN, "t", TableName("s" * 128, "t" * 128))
    assert len(long) <= LONGEST_NAME
    assert long != of_tables.place(ORIGIN, "t", TableName("s" * 128, "t" * 127 + "u"))


@pytest.mark.parametrize("name", ["a b", "-a", "a.", "a/b", "{nobody}", "", "ä", "x" * 257])
def test_a_name_that_no_hub_can_have_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        settings(event_hub=name)


@pytest.mark.parametrize("given", [{}, {"connection_string": KEY, "namespace": "hubs.servicebus.windows.net"}])
def test_one_way_in(given: dict[str, str]) -> None:
    found = list(EventHubsOutput.conflicts({"event_hub": "x", **given}))
    assert len(found) == 1


def test_the_key_is_never_shown() -> None:
    assert SECRET not in repr(by_key()) + str(by_key().model_dump())


def _streams(count: int, hub: str = "changes") -> list[Stream]:
    return [Stream(f"t{each}", TableName("dbo", f"T{each}"), hub) for each in range(count)]


@pytest.mark.parametrize("provision", ["create", "verify", "none"])
def test_a_plan_creates_nothing_and_says_how(provision: Any) -> None:
    found = planned(by_key(), _streams(3), provision)
    assert found.creates == []
    assert "event hub changes, which a start does not create" in found.needs
    assert found.script.count("az eventhubs eventhub create") == 1
    assert "--namespace-name hubs --name changes" in found.script
    assert "--rights Send" in found.script
    assert SECRET not in repr(found)


def test_a_plan_for_an_identity_names_the_role() -> None:
    found = planned(settings(), _streams(1), "verify")
    assert any("Azure Event Hubs Data Sender" in need for need in found.needs)
    assert "az role assignment create" in found.script
