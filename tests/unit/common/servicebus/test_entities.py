"""Many topics are looked at side by side, and at fewer where the service refuses so many calls at once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from common.azure_amqp.address import read_address
from common.errors import TransientError
from common.servicebus import entities as servicebus_entities
from common.servicebus import management as servicebus_management
from common.servicebus.entities import AT_ONCE_THROTTLED, Entities, TopicFacts
from common.servicebus.management import AT_ONCE

NAMES = [f"t{number}" for number in range(AT_ONCE)]


def refused(status: int) -> HttpResponseError:
    error = HttpResponseError(f"status {status}")
    error.status_code = status
    return error


class Service:
    """The administration client's calls for one topic. `answer` says what becomes of a call: it raises, or lets it pass."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        self._answer = answer
        self._guard = threading.Lock()
        self._now = 0
        self.most = 0
        self.asked = Counter[str]()

    def get_topic(self, name: str) -> Any:
        with self._guard:
            self.asked[name] += 1
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            self._answer(name)
        finally:
            with self._guard:
                self._now -= 1
        return SimpleNamespace(
            requires_duplicate_detection=False,
            default_message_time_to_live=None,
            auto_delete_on_idle=timedelta(days=1),
            max_message_size_in_kilobytes=None,
            max_size_in_megabytes=1024,
            status="Active",
        )

    def get_topic_runtime_properties(self, name: str) -> Any:
        return SimpleNamespace(size_in_bytes=0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is final at once, in place of after 15 s."""
    monkeypatch.setattr(servicebus_management, "PATIENCE", -1.0)


def entities(monkeypatch: pytest.MonkeyPatch, service: Service) -> Entities:
    monkeypatch.setattr(servicebus_entities, "administration", lambda *given: (service, "host"))
    return Entities(
        read_address("Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey=k"), None
    )


def test_topics_refused_as_too_many_at_once_are_asked_for_again_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_at_once, a_few = threading.Barrier(AT_ONCE), threading.Barrier(AT_ONCE_THROTTLED)
    most = list[int]()

    def answer(name: str) -> None:
        if service.asked[name] == 1:
            all_at_once.wait(30)
            most.append(service.most)
            service.most = 0
            raise refused(429)
        a_few.wait(30)
        time.sleep(0.05)  # time for a further call to begin, were there one

    service = Service(answer)
    found = entities(monkeypatch, service).topics(NAMES, unsubscribed=NAMES)
    assert max(most) == AT_ONCE
    assert service.most == AT_ONCE_THROTTLED
    assert set(service.asked.values()) == {2}
    assert [name for name in NAMES if isinstance(found[name], TopicFacts)] == NAMES


def test_only_what_was_refused_as_too_many_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(name: str) -> None:
        if name == "t1":
            raise ResourceNotFoundError("no such topic")
        if name == "t2":
            raise refused(503)
        if name == "t3":
            raise refused(429)

    service = Service(answer)
    found = entities(monkeypatch, service).topics(NAMES[:4], unsubscribed=NAMES)
    assert isinstance(found["t0"], TopicFacts)
    assert found["t1"] is None
    assert isinstance(found["t2"], TransientError)
    assert isinstance(found["t3"], TransientError)
    assert service.asked == {"t0": 1, "t1": 1, "t2": 1, "t3": 2}
