"""What the router provides for before it opens a link."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from common.names import TableName
from router import app as wiring
from router.publishing.publishers import MOST_OPEN, OPENED_AT_ONCE
from router.receiving.parking import PARKED_PER_SLOT
from tests.unit.router.test_restarts import SETTINGS


class Enough(Exception):
    """The call under test has been made."""


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> Mock:
    asked = Mock(side_effect=Enough)
    monkeypatch.setattr(wiring, "provide_descriptors", asked)
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


def _topics(count: int) -> dict[str, TableName]:
    return {f"t{number}": TableName("dbo", f"t{number}") for number in range(count)}
