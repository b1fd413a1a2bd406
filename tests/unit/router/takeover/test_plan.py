"""What of an edited configuration a running router takes over, and what waits for a restart."""

from __future__ import annotations

from typing import Any

import pytest

from common.names import TableName
from common.observability.health_settings import HealthSettings
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.console.settings import ConsoleSettings
from router.routing.settings import RouteBlock
from router.settings import RouterSettings
from router.takeover.plan import output_changes, plan
from tests.unit.router.test_restarts import SETTINGS

BASE = SETTINGS.model_copy(update={"workers": 2})


def edited(**changes: Any) -> RouterSettings:
    return BASE.model_copy(update=changes)


def test_the_same_file_changes_nothing() -> None:
    assert plan(BASE, edited()).settings is None
    assert plan(BASE, edited()).restart == ()


def test_tables_need_no_takeover_because_topics_are_looked_up() -> None:
    assert plan(BASE, edited(topics={"a.b.later.events": TableName("dbo", "Later")})).settings is None


@pytest.mark.parametrize("changes", [{"slots": 3}, {"batch": 7}, {"subscriptions": ()}, {"on_poison": "stop"}])
def test_other_settings_are_taken_over(changes: dict[str, Any]) -> None:
    decided = plan(BASE, edited(**changes))
    assert decided.settings is not None
    assert decided.restart == ()
    assert {name: getattr(decided.settings, name) for name in changes} == changes


def test_workers_and_health_stay_and_the_rest_of_the_edit_is_taken_over() -> None:
    decided = plan(BASE, edited(workers=3, health=HealthSettings(), batch=7))
    assert decided.settings is not None
    assert (decided.settings.workers, decided.settings.health, decided.settings.batch) == (2, None, 7)
    assert decided.restart == ("router.workers", "router.health")
    assert not decided.whole
    alone = plan(BASE, edited(workers=3))
    assert (alone.settings, alone.restart) == (None, ("router.workers",))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"queue_name": "other"}, "ingester.queue.name"),
        ({"ordering": "none"}, "ingester.queue.ordering"),
    ],
)
def test_an_edit_with_another_queue_waits_as_a_whole(changes: dict[str, Any], named: str) -> None:
    decided = plan(BASE, edited(batch=7, **changes))
    assert decided.settings is None
    assert decided.restart == (named,)
    assert decided.whole


def test_another_namespace_of_the_queue_waits_and_its_key_is_not_told() -> None:
    key = "Endpoint=sb://other/;SharedAccessKeyName=n;SharedAccessKey=k2V5"
    other = type(BASE.source).model_validate({"connection_string": key})
    decided = plan(BASE, edited(source=other))
    assert decided.settings is None
    assert decided.restart == ("router.source.connection_string",)


def test_a_new_key_for_the_same_namespace_is_taken_over() -> None:
    old, new = (
        type(BASE.source).model_validate(
            {"connection_string": f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={key}"}
        )
        for key in ("k2V5", "a2V5")
    )
    decided = plan(edited(source=old), edited(source=new))
    assert decided.settings is not None
    assert decided.settings.source == new


def test_an_output_for_one_process_waits_where_there_are_several() -> None:
    console = ConsoleSettings(type="console", name="shown")
    routes = (RouteBlock.model_validate({"to": ("default", "shown")}),)
    decided = plan(BASE, edited(outputs=(console,), route=routes, workers=1))
    assert (decided.settings, decided.restart, decided.whole) == (None, ("router.workers",), True)
    alone = BASE.model_copy(update={"workers": 1})
    assert plan(alone, edited(outputs=(console,), route=routes, workers=1)).settings is not None


def test_the_changes_of_outputs_are_named() -> None:
    def stream(name: str, topic: str) -> ServiceBusOutput:
        return ServiceBusOutput(namespace="far.servicebus.windows.net", name=name, topic=topic)

    def to(*outputs: ServiceBusOutput) -> RouterSettings:
        route = RouteBlock.model_validate({"to": ("default", *(each.name for each in outputs))})
        return edited(outputs=outputs, route=(route,))

    old, new = (
        to(stream("one", "{table}"), stream("two", "{table}")),
        to(stream("two", "x.{table}"), stream("three", "t")),
    )
    found = output_changes(old, new)
    assert (found.added, found.removed, found.changed) == (("three",), ("one",), ("two",))
