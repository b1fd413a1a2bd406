"""Spans as a collector gets them, contexts that are kept or made, and tracing that is off, mute or lacking its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from common.bus.ports import TimeLeft
from common.bus.traced import TracedSender
from common.errors import TransientError
from common.message import Message
from common.observability.spans import Spans
from common.observability.tracing import MOST_LINKS, spans_of, switched_on
from ingester.history.rows import RowsQuery
from ingester.history.snapshot import Chunk
from ingester.source import Page, PageQuery, Source
from ingester.task.chunk_pages import ChunkReader
from ingester.task.traced import TracedChunks, TracedPages, traced_sender
from tests.fakes.ingester import instance, position
from tests.fakes.rows import FakeRows
from tests.worlds.collector import Collector, collector

ROOT = Path(__file__).parents[3]
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Taking:
    """A sender."""

    def __init__(self, error: Exception | None = None) -> None:
        self.taken: list[Message] = []
        self.error = error

    def batch_bytes(self) -> int:
        return 1_000

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        if self.error is not None:
            raise self.error
        self.taken += messages

    def close(self) -> None:
        pass


def message(context: str | None = None) -> Message:
    return Message(b"{}", "id", application_properties={} if context is None else {"traceparent": context})


@pytest.fixture
def seen() -> Any:
    with collector() as made:
        yield made


def spans(made: Collector, service: str = "stage") -> Spans:
    found = spans_of(f"{service}-{made.port}", {**made.environment})
    assert found is not None
    return found


def wait_for(made: Collector, count: int) -> None:
    ends = time.monotonic() + 60
    while len(made.seen) < count and time.monotonic() < ends:
        time.sleep(0.05)
    assert len(made.seen) == count


@pytest.fixture(autouse=True)
def _endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK reads the process's own variables."""
    if "seen" in request.fixturenames:
        for name, value in request.getfixturevalue("seen").environment.items():
            monkeypatch.setenv(name, value)


class Pages:
    """A source with one page."""

    def __init__(self, changes: int) -> None:
        self.changes = changes

    def page(self, query: PageQuery) -> Page:
        return cast(Page, type("Page", (), {"changes": (None,) * self.changes}))

    def close(self) -> None:
        pass


def query() -> PageQuery:
    return PageQuery(instance(), position(1), position(9), 10)


def test_a_page_its_batches_and_their_messages_are_one_trace(seen: Collector) -> None:
    made = spans(seen)
    pages, taking = TracedPages(cast(Source, Pages(3)), made), Taking()
    sender = traced_sender(taking, made, "ingest-queue", pages)
    pages.source.page(query())
    sender.send([message(), message(GIVEN), message()])
    pages.forget()
    router = TracedSender(Taking(), made, "route topic", {"messaging.system": "servicebus"})
    router.send([taking.taken[0], taking.taken[2]])
    router.send(taking.taken)
    wait_for(seen, 4)
    (page,), (send,), (route, mixed) = seen.named("page"), seen.named("send"), seen.named("route")
    own = taking.taken[0].application_properties["traceparent"]
    assert isinstance(own, str)
    assert own[3:52] == f"{page.trace}-{page.id}"
    assert [each.application_properties["traceparent"] for each in taking.taken] == [own, GIVEN, own]
    assert (send.trace, send.parent) == (page.trace, page.id)
    assert send.links == (GIVEN[3:52],)
    assert send.attributes["messaging.batch.message_count"] == 3
    assert page.attributes["dstream.changes"] == 3
    assert (route.trace, route.parent, route.links) == (page.trace, page.id, (own[3:52],))
    assert mixed.trace not in (page.trace, GIVEN[3:35])
    assert set(mixed.links) == {own[3:52], GIVEN[3:52]}


def test_links_are_bounded_and_an_error_is_named_by_its_type(seen: Collector) -> None:
    contexts = [f"00-{number:032x}-{number:016x}-01" for number in range(1, 100)]
    sender = TracedSender(Taking(TransientError("value of a row")), spans(seen), "route topic", {})
    with pytest.raises(TransientError):
        sender.send([message(each) for each in contexts])
    wait_for(seen, 1)
    assert len(seen.seen[0].links) == MOST_LINKS
    assert seen.seen[0].failed
    assert seen.seen[0].attributes["error.type"] == "TransientError"
    assert "value of a row" not in str(seen.seen[0])


def test_what_a_router_passes_on_stays_as_it_is(seen: Collector) -> None:
    taking = Taking()
    given = [message(), message(GIVEN), replace(message(), application_properties={"traceparent": "not one"})]
    TracedSender(taking, spans(seen), "route topic", {}).send(given)
    assert taking.taken == given
    wait_for(seen, 1)  # else its thread says during another test that it was lost


def test_a_page_without_changes_ends_at_once(seen: Collector) -> None:
    pages = TracedPages(cast(Source, Pages(0)), spans(seen))
    pages.source.page(query())
    assert pages.sending() is None
    wait_for(seen, 1)


def test_a_page_of_a_snapshot_is_a_span_and_its_messages_are_in_its_trace(seen: Collector) -> None:
    made = spans(seen)
    pages, taking = TracedPages(cast(Source, Pages(3)), made), Taking()
    sender = traced_sender(taking, made, "ingest-queue", pages)
    rows = FakeRows([1, 2, 3])
    chunk = Chunk("a1b2c3d4e5f6", rows.table(instance()), number=4, rows=3)
    pages.source.page(query())  # of changes, and it does not go on
    with TracedChunks(ChunkReader(rows), pages).reader.pages(chunk) as found:
        for _ in range(2):
            found.next(2)
            sender.send([message()])
    pages.forget()
    wait_for(seen, 5)
    first, second = (each for each in seen.named("page") if "dstream.snapshot" in each.attributes)
    assert [first.attributes["dstream.changes"], second.attributes["dstream.changes"]] == [2, 1]
    assert (first.attributes["dstream.snapshot"], first.attributes["dstream.chunk"]) == ("a1b2c3d4e5f6", 4)
    assert [each.parent for each in seen.named("send")] == [first.id, second.id]
    assert [str(each.application_properties["traceparent"])[3:35] for each in taking.taken] == [
        first.trace,
        second.trace,
    ]


def test_a_page_of_a_snapshot_that_fails_is_a_span_with_the_errors_type(seen: Collector) -> None:
    def refuse(_: RowsQuery) -> None:
        raise TransientError("value of a row")

    rows = FakeRows([1], before_page=refuse)
    chunk = Chunk("a1b2c3d4e5f6", rows.table(instance()), number=1, rows=3)
    pages = TracedPages(cast(Source, Pages(3)), spans(seen))
    with TracedChunks(ChunkReader(rows), pages).reader.pages(chunk) as found, pytest.raises(TransientError):
        found.next(2)
    assert pages.sending() is None
    wait_for(seen, 1)
    assert seen.seen[0].attributes["error.type"] == "TransientError"
    assert "value of a row" not in str(seen.seen[0])


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "a"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
    ],
)
def test_the_standard_variables_switch_it_on(environment: Mapping[str, str], on: bool) -> None:
    assert switched_on(environment) is on


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    usual = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**usual, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_switched_off_it_imports_nothing() -> None:
    program = (
        "import sys, ingester.worker, router.worker\nfrom common.observability.tracing import spans_of\n"
        "assert spans_of('x') is None\nassert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    run(program)


SPAN = "from common.observability.tracing import spans_of\nmade = spans_of('x')\nmade and made.begin('a', 'internal', {}).end()\n"


def test_the_end_of_a_process_sends_what_is_left() -> None:
    with collector() as made:
        run(SPAN, **made.environment, OTEL_SERVICE_NAME="mine", OTEL_BSP_SCHEDULE_DELAY="60000")
        assert [(each.service, each.name) for each in made.seen] == [("mine", "a")]


def test_the_end_of_a_process_starts_no_thread() -> None:
    """Python 3.12 refuses that in an exit hook."""
    program = (
        "import atexit, threading\n"
        'def refused(self): raise RuntimeError("can\'t create new thread at interpreter shutdown")\n'
        f"{SPAN}atexit.register(lambda: setattr(threading.Thread, 'start', refused))"
    )
    with collector() as made:
        ended = run(program, **made.environment, OTEL_BSP_SCHEDULE_DELAY="60000")
        assert ended.stderr == ""
        assert [each.name for each in made.seen] == ["a"]


def test_a_mute_collector_holds_nobody_up() -> None:
    program = (
        f"import time\n{SPAN}began = time.monotonic()\nfor _ in range(5000): made.begin('a', 'internal', {{}}).end()\n"
    )
    with collector(mute=True) as made:
        began = time.monotonic()
        run(program + "assert time.monotonic() - began < 10", **made.environment)
        assert time.monotonic() - began < 45


def test_without_the_packages_a_warning_says_which_extra() -> None:
    program = f"import sys\nsys.modules['opentelemetry.sdk.trace'] = None\n{SPAN}assert made is None"
    ended = run(program, OTEL_TRACES_EXPORTER="otlp")
    assert "dstream-cdc[tracing]" in ended.stdout + ended.stderr


def test_another_exporter_is_refused_with_what_is_known() -> None:
    ended = run(f"{SPAN}assert made is None", OTEL_TRACES_EXPORTER="zipkin")
    assert "OTEL_TRACES_EXPORTER=otlp" in ended.stdout + ended.stderr
