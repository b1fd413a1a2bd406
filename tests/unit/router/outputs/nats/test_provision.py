"""Streams that somebody else has made: which are unfit, and which are weak. And two routers that write one stream at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from router.outputs.event_loop import LoopThread
from router.outputs.nats import provision
from router.outputs.nats.provision import Look, Streams
from router.outputs.nats.settings import NatsSettings

SOUND: dict[str, Any] = {
    "name": "s",
    "subjects": ["a"],
    "retention": RetentionPolicy.LIMITS,
    "storage": StorageType.FILE,
    "discard": DiscardPolicy.NEW,
    "max_bytes": 1000,
    "duplicate_window": 600,
}


def look(**given: Any) -> Look:
    return Look("s", StreamConfig(**{**SOUND, **given}), ())


def test_a_stream_like_those_that_are_created_is_fit() -> None:
    assert look().unfit is None
    assert list(look().weak(600)) == []
    assert list(look(discard=DiscardPolicy.OLD, max_bytes=-1, max_msgs=-1).weak(600)) == []


@pytest.mark.parametrize("retention", [RetentionPolicy.INTEREST, RetentionPolicy.WORK_QUEUE, "interest"])
def test_a_stream_that_stores_only_for_consumers_it_knows_is_unfit(retention: Any) -> None:
    assert "retention" in (look(retention=retention).unfit or "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"storage": StorageType.MEMORY}, "in memory"),
        ({"discard": DiscardPolicy.OLD}, "max_bytes, discard old"),
        ({"discard": DiscardPolicy.OLD, "max_bytes": -1, "max_msgs": 5}, "max_msgs, discard old"),
        ({"max_msgs_per_subject": 1}, "max_msgs_per_subject"),
        ({"duplicate_window": 120}, "120 s, less than"),
    ],
)
def test_a_stream_that_may_lose_or_repeat_what_it_took_is_weak(given: dict[str, Any], said: str) -> None:
    (text,) = look(**given).weak(600)
    assert said in text


class Manager:
    """A stream to which another router writes what it has read before, over what was written meanwhile, so many times."""

    def __init__(self, overwrites: int) -> None:
        self.config = StreamConfig(**SOUND)
        self._overwrites = overwrites

    async def stream_info(self, name: str) -> Any:
        return type("Info", (), {"config": self.config})

    async def update_stream(self, config: StreamConfig) -> None:
        if self._overwrites:
            self._overwrites -= 1
            config = config.evolve(subjects=["a", "theirs"])
        self.config = config


class Connection:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    async def opened(self) -> Connection:
        return self

    async def asked(self, question: Callable[[Any], Awaitable[Any]], doing: str, domain: str | None) -> Any:
        return await question(self._manager)


def test_subjects_that_another_router_has_overwritten_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "_MOMENT", 0.0)
    manager, loop = Manager(overwrites=2), LoopThread("test")
    settings = NatsSettings(type="nats", servers=("nats://h:4222",))
    connection: Any = Connection(manager)
    try:
        Streams(settings, connection, loop).provision({"s": ["a", "ours"]}, "create", None)
    finally:
        loop.close()
    assert manager.config.subjects == ["a", "theirs", "ours"]
