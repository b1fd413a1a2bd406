"""What the router provides for before it opens a link."""

from __future__ import annotations

import threading
import time
from typing import NoReturn
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from common.errors import PermanentError
from common.message import Message
from common.names import TableName
from router import app as wiring
from router.outputs import registry
from router.publishing.publishers import MOST_OPEN, OPENED_AT_ONCE
from router.receiving.parking import PARKED_PER_SLOT
from router.routing import table
from router.routing.settings import RouteBlock
from router.takeover import generation
from tests.fakes.bus import FakeBroker
from tests.unit.router.test_restarts import SETTINGS


class Enough(Exception):
    """The call under test has been made."""


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> Mock:
    asked = Mock(side_effect=Enough)
    monkeypatch.setattr(generation, "provide_descriptors", asked)
    return asked


@pytest.mark.parametrize(("topics", "links"), [(7, 7), (5_000, MOST_OPEN + 80)])
def test_a_process_that_routes_provides_for_the_links_it_may_have_open(provided: Mock, topics: int, links: int) -> None:
    settings = SETTINGS.model_copy(update={"topics": _topics(topics), "slots": 8, "workers": 1})
    with pytest.raises(Enough):
        wiring.route(settings, threading.Event())
    provided.assert_called_once_with(links + 8 * (1 + 2 * PARKED_PER_SLOT))


@pytest.mark.parametrize(("topics", "links"), [(7, 7), (5_000, MOST_OPEN + OPENED_AT_ONCE)])
def test_a_process_that_only_opens_each_topic_once_provides_for_fewer(provided: Mock, topics: int, links: int) -> None:
    settings = SETTINGS.model_copy(update={"topics": _topics(topics), "workers": 2})
    with pytest.raises(Enough):
        wiring.run(settings, threading.Event())
    provided.assert_called_once_with(links)


def test_a_start_warns_of_settings_that_create_no_topics(provided: Mock) -> None:
    settings = SETTINGS.model_copy(update={"creating_nothing": ("router.create_under",), "workers": 2})
    with capture_logs() as logs, pytest.raises(Enough):
        wiring.run(settings, threading.Event())
    assert [(line["log_level"], line["event"], line["setting"]) for line in logs] == [
        ("warning", "setting creates no topics", "router.create_under")
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_filter_without_its_library_ends_the_start_before_anything_is_opened(
    provided: Mock, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    def lacking(text: str) -> NoReturn:
        raise PermanentError("the filter needs the Python package cel_expr_python, which is not installed", hint="no")

    monkeypatch.setattr(table, "compile_filter", lacking)
    routes = (RouteBlock(to=("default",)), RouteBlock(to=("default",), when="data.ID > 1"))
    settings = SETTINGS.model_copy(update={"workers": workers, "route": routes})
    with pytest.raises(PermanentError) as raised:
        wiring.run(settings, threading.Event())
    assert (
        raised.value.message == "route 2: its filter needs the Python package cel_expr_python, which is not installed"
    )
    assert raised.value.hint == "pip install 'dstream-cdc[routes]'"
    assert not provided.called


def test_a_router_creates_opens_and_routes_on_any_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that wiring needs is the port: queue and topic are created, and what waits in the queue arrives in order."""
    bus, topic, stop = FakeBroker(), "a.b.c.events", threading.Event()
    for module in (wiring, registry):
        monkeypatch.setattr(module, "bus_of", lambda settings, *, proven=False: bus)
    monkeypatch.setattr(generation, "provide_descriptors", lambda needed: None)
    ended: list[int] = []
    bodies = [b"%d" % number for number in range(20)]

    def begun() -> None:
        sender = bus.sender(SETTINGS.queue_name)
        sender.send(
            [
                Message(
                    body=body, message_id=body.decode(), session_id="s", application_properties={"destination": topic}
                )
                for body in bodies
            ]
        )

    settings = SETTINGS.model_copy(update={"workers": 1, "slots": 2})
    router = threading.Thread(target=lambda: ended.append(wiring.route(settings, stop, started=begun)))
    router.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (topic not in bus.entities_by_name or len(bus.entity(topic).bodies) < 20):
        time.sleep(0.01)
    stop.set()
    router.join(60)
    assert bus.entity(topic).bodies == bodies
    assert bus.entity(SETTINGS.queue_name).bodies == []
    assert ended == [0]


def _topics(count: int) -> dict[str, TableName]:
    return {f"t{number}": TableName("dbo", f"t{number}") for number in range(count)}


def test_the_first_news_is_what_the_start_has_read() -> None:
    """Reading the configuration again would delay the first receive by seconds."""
    table = TableName("dbo", "Later")
    latest = Mock(return_value=SETTINGS.model_copy(update={"topics": {"later": table}}))
    news = generation.News(SETTINGS, latest)
    first = news()
    latest.assert_not_called()
    assert first == (frozenset(SETTINGS.topics), SETTINGS.selection)
    assert news() == (frozenset({"later"}), SETTINGS.selection)
