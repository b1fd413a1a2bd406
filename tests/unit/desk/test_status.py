"""The status asks all stores at once: one that does not answer holds up no other."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from common.bus.depths import Depth
from common.errors import PermanentError, TransientError
from common.unread import Unread
from desk import status as looking
from desk.status import Stages, Status

QUEUE, TOPIC = Depth("ingest", None, 5, 1), Depth("s.d.persons.events", "sub1", 7, 0)
REFUSED, AWAY = PermanentError("no right", hint="grant it"), TransientError("no answer")
Answer = Depth | Exception | None


class Stores:
    """None of them answers before all have been asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._all = threading.Barrier(5)
        monkeypatch.setattr("common.buses.bus_of", lambda settings: SimpleNamespace(entities=settings))
        monkeypatch.setattr(looking, "_depth", self._depth)
        monkeypatch.setattr(looking, "tables_of", self._tables)
        monkeypatch.setattr(looking, "topics_of", self._topics)
        monkeypatch.setattr(looking, "late_capture", self._capture)

    def read(self, of_router: Answer = QUEUE, of_ingester: Answer = None) -> Status:
        """Each answer: what its stage gets from the queue."""
        ingester = SimpleNamespace(queue=SimpleNamespace(name="ingest", answer=of_ingester))
        router = SimpleNamespace(source=SimpleNamespace(answer=of_router), queue_name="ingest")
        return looking.read(Stages(ingester, router), threading.Event())

    def _depth(self, bus: Any, entities: Any, name: str, stop: threading.Event) -> Any:
        self._all.wait(60)
        if isinstance(entities.answer, Exception):
            raise entities.answer
        return entities.answer

    def _tables(self, settings: Any, unread: list[Unread]) -> tuple[list[Any], dict[str, int]]:
        self._all.wait(60)
        unread.append(Unread("owners", "mute"))
        return [], {"spark-1:7": 1}

    def _capture(self, settings: Any) -> None:
        self._all.wait(60)

    def _topics(self, settings: Any, unread: list[Unread], stop: threading.Event) -> Any:
        self._all.wait(60)
        unread.append(Unread("topics", "mute"))
        return SimpleNamespace(depths=[TOPIC], missing=())


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Stores:
    return Stores(monkeypatch)


def test_all_stores_are_asked_at_once_and_what_is_unknown_has_its_order(stores: Stores) -> None:
    found = stores.read(of_router=REFUSED, of_ingester=AWAY)
    assert (found.ingesters, found.queue, found.topics) == ({"spark-1:7": 1}, None, [TOPIC])
    assert found.unread == [
        Unread("owners", "mute"),
        Unread("queue ingest", "no right", "grant it"),
        Unread("topics", "mute"),
    ]


def test_the_queue_is_known_if_one_stage_may_see_it(stores: Stores) -> None:
    for answers in ((QUEUE, REFUSED), (REFUSED, QUEUE)):
        found = stores.read(*answers)
        assert found.queue == QUEUE
        assert [each.what for each in found.unread] == ["owners", "topics"]


def test_a_queue_that_does_not_exist_is_reported_if_one_stage_sees_it(stores: Stores) -> None:
    found = stores.read(of_router=REFUSED, of_ingester=None)
    assert found.queue is None
    assert "it does not exist yet" in str(found.unread[1])


def test_a_store_that_never_answers_ends_the_look_with_an_error(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = threading.Event()
    monkeypatch.setattr(looking, "topics_of", lambda *_: mute.wait())
    monkeypatch.setattr(looking, "_READ_SECONDS", 0.01)
    try:
        with pytest.raises(TransientError, match="reading the status: no end within"):
            stores.read()
    finally:
        mute.set()
