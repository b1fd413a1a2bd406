"""What the router tells `dstream check` of itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from common.check import Finding, Outcome, ok
from common.errors import TransientError
from common.names import TRANSACTIONS, TableName
from router.check import _connections, _output, findings
from router.outputs.console.settings import ConsoleSettings
from router.publishing.publishers import MOST_OPEN
from router.receiving.parking import PARKED_PER_SLOT
from router.routing.settings import RouteBlock
from router.settings import RouterSettings
from tests.fakes.bus import FakeBroker
from tests.unit.router.test_restarts import SETTINGS


def test_connections_are_counted_with_the_bounds_that_the_router_keeps() -> None:
    topics = {f"t{number}": TableName("dbo", f"t{number}") for number in range(MOST_OPEN + 50)}
    [found] = _connections(SETTINGS.model_copy(update={"topics": topics, "slots": 2, "workers": 3}))
    assert f"up to {(MOST_OPEN + 2) * 3:,} " in found.text
    assert f"{(MOST_OPEN + 2 * (1 + 2 * PARKED_PER_SLOT)) * 3:,} while topics are unavailable" in found.text


def test_a_setting_that_creates_no_topics_is_a_warning_with_its_remedy() -> None:
    settings = SETTINGS.model_copy(update={"creating_nothing": ("router.create_under",)})
    first = next(findings(settings))
    assert (first.outcome, first.subject) == (Outcome.WARN, "router.create_under")
    assert 'unknown_destination = "create"' in (first.hint or "")


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, []),
        ({"envelope": "changes"}, ["ok    envelope: the topics get changes as changes"]),
        (
            {"envelope": "cloudevents", "cloudevents_mode": "binary"},
            ["ok    envelope: the topics get changes as cloudevents (binary)"],
        ),
        (
            {"envelope": "debezium", "tombstones": True},
            ["ok    envelope: the topics get changes as debezium, with tombstones"],
        ),
    ],
)
def test_an_envelope_that_is_not_the_usual_one_is_told(
    given: dict[str, object], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.check.guarded", lambda subject, look: ())  # nothing is asked of the bus
    output = SETTINGS.output.model_copy(update=given)
    found = findings(SETTINGS.model_copy(update={"output": output}))
    assert [str(each) for each in found if each.subject == "envelope"] == lines


@pytest.mark.parametrize(
    ("envelope", "outcome"), [("changes", Outcome.WARN), ("debezium", Outcome.OK), ("cloudevents", Outcome.OK)]
)
def test_an_envelope_without_a_place_for_transactions_is_a_warning(
    envelope: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.check.guarded", lambda subject, look: ())  # nothing is asked of the bus
    output = SETTINGS.output.model_copy(update={"envelope": envelope})
    topics = {**SETTINGS.topics, "srv.db.cdc.transactions.events": TRANSACTIONS}
    found = findings(SETTINGS.model_copy(update={"output": output, "topics": topics}))
    [judged] = [each for each in found if each.subject == "envelope"]
    assert judged.outcome is outcome
    assert ("transactions" in str(judged)) == (outcome is Outcome.WARN)


def test_each_output_is_asked_and_a_further_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    for module in ("router.check", "router.outputs.registry"):
        monkeypatch.setattr(f"{module}.bus_of", lambda settings, *, proven=False: broker)
    route = RouteBlock.model_validate({"from": ("*.*",), "to": ("default", "look")})
    look = ConsoleSettings(type="console", name="look", envelope="changes")
    settings = SETTINGS.model_copy(update={"outputs": (look,), "route": (route,)})
    subjects = [str(each.subject) for each in findings(settings)]
    assert "topic a.b.c.events" in subjects
    assert any(subject.startswith("output look: ") for subject in subjects)
    assert "output look: envelope" in subjects


def test_the_default_output_may_be_of_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = FakeBroker()
    broker.most_connections = 1000
    monkeypatch.setattr("router.check.bus_of", lambda settings, *, proven=False: broker)
    settings = SETTINGS.model_copy(update={"output": ConsoleSettings(type="console")})
    found = list(findings(settings))
    assert [each for each in found if each.outcome is Outcome.FAIL and "queue" not in each.subject] == []
    [connections] = [each for each in found if each.subject == "connections"]
    assert "topics with an open link: 0, slots: 8" in connections.text


def test_a_fault_of_an_output_has_its_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def places(settings: RouterSettings, name: str) -> Iterator[Finding]:
        yield ok("table", "it is there")
        yield ok("output copy", "it answers")
        raise TransientError("no route to host")

    monkeypatch.setattr("router.check._places", places)
    told = [each.subject for each in _output(SETTINGS, "copy")]
    assert told == ["output copy: table", "output copy", "output copy"]
