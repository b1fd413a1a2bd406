"""EventService.Watch: what a stream holds, many at once, readers that are slow, mute or gone, and a stop while they are open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import grpc
import pytest

from common.errors import TransientError
from desk.console.access import checked
from desk.console.grpc.handling import Sizes
from desk.desk import Desk
from desk.documents.overview import Overview
from desk.documents.tables import Table
from tests.console.grpc.conftest import TOKEN, Started
from tests.fakes.desk import lively_desk


class Stage:
    """In place of `watching`: looks that the test makes."""

    def __init__(self, tables: int = 20) -> None:
        self.inner = lively_desk(tables=tables).watching
        self.seen = {table.table: table for table in self.inner.tables()}
        self.number, self.asked = 1, 0
        self.padding = ""
        self._news = threading.Condition()

    def look(self, *changed: Table, gone: Sequence[str] = ()) -> None:
        with self._news:
            self.seen.update({table.table: table for table in changed})
            for name in gone:
                del self.seen[name]
            self.number += 1
            self._news.notify_all()

    def overview(self) -> Overview:
        return self.inner.overview().model_copy(update={"namespace": self.padding or "here"})

    def tables(self) -> list[Table]:
        return list(self.seen.values())

    def changed(self, since: int, *, wait: float) -> int:
        self.asked += 1
        with self._news:
            self._news.wait_for(lambda: self.number > since, wait)
            return self.number


def of(stage: Stage) -> Desk:
    return replace(lively_desk(), watching=stage)  # type: ignore[arg-type]


def eventually(holds: Callable[[], bool], within: float = 60) -> None:
    ends = time.monotonic() + within
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_a_stream_begins_with_everything_and_goes_on_with_what_changes(started: Started) -> None:
    stage = Stage()
    server = started(of(stage))
    client, pb = server.client(), server.pb
    stream = client.EventService.Watch(pb.WatchRequest(tables=True), timeout=20)
    first = next(stream)
    assert (first.number, [each.table for each in first.tables]) == (1, list(stage.seen))
    assert first.overview.server
    one, other = list(stage.seen.values())[:2]
    stage.look(one.model_copy(update={"state": "gap"}), gone=[other.table])
    second = next(stream)
    assert (second.number, [(each.table, each.state) for each in second.tables]) == (2, [(one.table, "gap")])
    assert list(second.gone) == [other.table]
    stage.look()
    third = next(stream)
    assert (third.number, len(third.tables), len(third.gone)) == (3, 0, 0)
    late = next(client.EventService.Watch(pb.WatchRequest(tables=True), timeout=20))
    assert (late.number, len(late.tables)) == (3, len(stage.seen))
    assert not next(client.EventService.Watch(pb.WatchRequest(), timeout=20)).tables
    stream.cancel()


def test_200_streams_cost_one_look(started: Started) -> None:
    stage = Stage()
    server = started(of(stage), sizes=Sizes(streams_of_a_client=256, calls_of_a_client=256))
    pb = server.pb
    streams = [
        client.EventService.Watch(pb.WatchRequest(tables=True), timeout=60)
        for client in [server.client(grpc__use_local_subchannel_pool=number) for number in range(4)]
        for _ in range(50)
    ]
    assert {next(stream).number for stream in streams} == {1}
    asked, threads = stage.asked, threading.active_count()
    stage.look(next(iter(stage.seen.values())).model_copy(update={"state": "gap"}))
    began = time.monotonic()
    events = [next(stream) for stream in streams]
    seconds = time.monotonic() - began
    assert seconds < 30
    assert {(event.number, len(event.tables)) for event in events} == {(2, 1)}
    assert stage.asked - asked <= 10 + seconds, "once a second, when nothing is new"
    assert threads < 260, "a stream costs no thread of the server's (each costs one of the client's)"
    assert server.client().OverviewService.GetOverview(pb.GetOverviewRequest(), timeout=10).server
    for stream in streams:
        stream.cancel()
    eventually(lambda: _asks_no_more(stage))


def _asks_no_more(stage: Stage) -> bool:
    before = stage.asked
    time.sleep(1.3)
    return stage.asked == before


def test_more_streams_than_allowed_are_refused(started: Started) -> None:
    server = started(of(Stage()), sizes=Sizes(streams=2))
    client, pb = server.client(), server.pb
    streams = [client.EventService.Watch(pb.WatchRequest(), timeout=20) for _ in range(2)]
    assert [next(stream).number for stream in streams] == [1, 1]
    with pytest.raises(grpc.RpcError) as caught:
        next(client.EventService.Watch(pb.WatchRequest(), timeout=20))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    streams[0].cancel()
    eventually(lambda: _opens(client, pb))


def test_a_client_with_too_many_streams_takes_none_of_another_s(started: Started) -> None:
    access = checked("127.0.0.1", token_file=False, behind_proxy="x-user")
    server = started(of(Stage()), access=access, sizes=Sizes(streams_of_a_client=2))
    pb = server.pb

    def watched(who: str) -> Any:
        return server.client().EventService.Watch(pb.WatchRequest(), timeout=20, metadata=[("x-user", who)])

    hog = [watched("hog") for _ in range(2)]
    assert [next(stream).number for stream in hog] == [1, 1]
    with pytest.raises(grpc.RpcError, match="2 streams of this client are open already") as caught:
        next(watched("hog"))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert next(watched("ada")).number == 1
    hog[0].cancel()
    eventually(lambda: _streams(watched("hog")))


def _streams(stream: Any) -> bool:
    try:
        return bool(next(stream).number)
    except grpc.RpcError:
        return False


def _opens(client: Any, pb: Any) -> bool:
    return _streams(client.EventService.Watch(pb.WatchRequest(), timeout=20))


def test_a_mute_reader_loses_its_stream_and_holds_up_nobody(started: Started) -> None:
    """It opens a stream and never reads: HTTP/2's window fills up, and nothing can be sent."""
    stage = Stage()
    stage.padding = "x" * 100_000
    server = started(of(stage), sizes=Sizes(streams=2, unread_seconds=1))
    pb = server.pb
    options = {"grpc__http2__lookahead_bytes": 1024, "grpc__http2__bdp_probe": 0}
    mute = server.client(**options).EventService.Watch(pb.WatchRequest(tables=True), timeout=60)
    reader = server.client().EventService.Watch(pb.WatchRequest(tables=True), timeout=60)
    assert next(reader).number == 1
    for number in range(2, 60):
        stage.look()
        assert next(reader).number == number
    client = server.client()
    eventually(lambda: _opens(client, pb))
    reader.cancel()
    mute.cancel()


def test_the_deadline_of_a_client_ends_its_stream(started: Started) -> None:
    server = started(of(Stage()))
    stream = server.client().EventService.Watch(server.pb.WatchRequest(), timeout=3)
    assert next(stream).number == 1
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_stream_ends_after_its_time_so_that_the_token_is_asked_again(started: Started) -> None:
    server = started(of(Stage()), token=TOKEN, sizes=Sizes(stream_seconds=2))
    client, pb = server.client(), server.pb
    right = (("authorization", f"Bearer {TOKEN}"),)
    assert [event.number for event in client.EventService.Watch(pb.WatchRequest(), metadata=right, timeout=20)] == [1]
    with pytest.raises(grpc.RpcError) as caught:
        next(client.EventService.Watch(pb.WatchRequest(), timeout=20))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_looking_that_fails_ends_the_streams_with_its_cause(started: Started) -> None:
    class Failing(Stage):
        def overview(self) -> Overview:
            if self.number == 2:
                raise TransientError("reading the stores failed", hint="wait")
            return super().overview()

    stage = Failing()
    server = started(of(stage))
    client, pb = server.client(), server.pb
    stream = client.EventService.Watch(pb.WatchRequest(), timeout=20)
    assert next(stream).number == 1
    stage.look()
    with pytest.raises(grpc.RpcError, match="reading the stores failed"):
        next(stream)
    stage.look()
    eventually(lambda: _opens(client, pb))


def test_a_stop_ends_streams_at_once_and_lets_calls_end(started: Started) -> None:
    begun, desk = threading.Event(), lively_desk()

    class Slow(Stage):
        def overview(self) -> Overview:
            if threading.current_thread().name.startswith("console-"):
                begun.set()
                time.sleep(1)
            return desk.watching.overview()

    server = started(of(Slow()), sizes=Sizes(streams_of_a_client=256, calls_of_a_client=256))
    client, pb = server.client(), server.pb
    streams = [client.EventService.Watch(pb.WatchRequest(), timeout=60) for _ in range(20)]
    assert [next(stream).number for stream in streams] == [1] * 20
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(client.OverviewService.GetOverview, pb.GetOverviewRequest(), timeout=20)
        assert begun.wait(60)
        began = time.monotonic()
        server.serving.stop()
        assert time.monotonic() - began < 30
        assert call.result().server
    for stream in streams:
        with pytest.raises(grpc.RpcError, match="the console stops"):
            next(stream)
    server.serving.stop()
