"""Each method over the wire, by a generated client; what is refused, with its code and its remedy; bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from common.errors import ConfigurationError, Throttled, TransientError
from desk.console.calls import Bounds, Calls
from desk.console.grpc.handling import Sizes
from desk.console.limits import Limit, Limits, Rate
from desk.desk import Desk
from desk.documents.overview import Overview
from tests.console.grpc.conftest import TOKEN, Client, Started
from tests.fakes.desk import lively_desk


def refusal(call: Any, *given: Any, **named: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*given, timeout=named.pop("timeout", 20), **named)
    return caught.value


def details(error: Any) -> tuple[error_details_pb2.ErrorInfo, status_pb2.Status]:
    metadata = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info, status


def test_each_method_that_looks_answers_as_the_desk_does(started: Started) -> None:
    server = started(lively_desk(tables=12, now=lambda: 1_800_000_000.0))
    client, pb, desk = server.client(), server.pb, server.desk
    assert client.OverviewService.GetOverview(pb.GetOverviewRequest()).server == desk.watching.overview().server
    tables = client.TableService.ListTables(pb.ListTablesRequest())
    assert [each.table for each in tables.items] == [each.table for each in desk.watching.tables()]
    name = tables.items[0].table
    assert client.TableService.GetTable(pb.GetTableRequest(name=name.upper())) == tables.items[0]
    assert client.TableService.GetHistory(pb.GetHistoryRequest()).lag_seconds
    assert client.TableService.GetHistory(pb.GetHistoryRequest(table=name)).table == name
    offsets = client.OffsetService.ListOffsets(pb.ListOffsetsRequest(search=name)).items
    assert [(each.table, each.offset) for each in offsets] == [(name, tables.items[0].offset)]
    assert client.OffsetService.ListMoves(pb.ListMovesRequest(table=name, most=2)).items[0].table == name
    assert len(client.OffsetService.ListMoves(pb.ListMovesRequest(most=2)).items) == 2
    assert len(client.SnapshotService.ListSnapshots(pb.ListSnapshotsRequest()).items) == 4
    topics = client.EntityService.ListTopics(pb.ListTopicsRequest()).items
    assert [name] in [list(each.tables) for each in topics]
    entities = client.EntityService.ListEntities(pb.ListEntitiesRequest()).items
    assert [each.entity for each in entities] == [each.entity for each in desk.watching.entities()]
    assert client.EntityService.ListUnacknowledged(pb.ListUnacknowledgedRequest()).items
    page = client.MessageService.ListMessages(pb.ListMessagesRequest(entity="queue", dead=True, most=10))
    assert len(page.items) == 10
    assert page.next
    further = client.MessageService.ListMessages(
        pb.ListMessagesRequest(entity="queue", dead=True, most=10, after=page.next)
    )
    assert further.items[0].sequence > page.items[-1].sequence
    sequence = page.items[0].sequence
    letter = client.MessageService.GetMessage(pb.GetMessageRequest(entity="queue", dead=True, sequence=sequence))
    assert letter.reason
    assert letter.remedy
    assert client.MessageService.FindStories(pb.StoryOrder(table=name, key=pb.Key(values={"ID": "1"}))).items
    counts = client.DeadLetterService.CountDeadLetters(pb.CountDeadLettersRequest()).items
    assert counts[0].entity == "queue"
    assert sum(counts[0].reasons.values()) == counts[0].total
    assert client.DeadLetterService.PlanReplay(pb.DeadLetterOrder(entity="queue")).dry_run
    assert not client.DeadLetterService.ListOperations(pb.ListOperationsRequest()).items
    assert client.SourceService.ListSources(pb.ListSourcesRequest()).items
    assert client.OutputService.ListOutputs(pb.ListOutputsRequest()).items[0].name == "default"
    assert client.ConfigurationService.GetConfiguration(pb.GetConfigurationRequest()).text
    assert not client.AuditService.ListAuditLines(pb.ListAuditLinesRequest()).items


def test_each_method_that_changes_is_done_and_written_down(started: Started) -> None:
    server = started()
    client, pb = server.client(), server.pb
    name = server.desk.watching.tables()[0].table
    order = pb.PauseOrder(reason="a bulk load")
    assert client.TableService.PauseTable(pb.PauseTableRequest(name=name, order=order)).state == "paused"
    assert client.TableService.ResumeTable(pb.ResumeTableRequest(name=name, order=order)).state != "paused"
    moved = client.OffsetService.MoveOffset(pb.MoveOffsetRequest(name=name, order=pb.OffsetOrder(earliest=True)))
    assert (moved.moved, moved.dry_run) == (False, True)
    snapshot = client.SnapshotService.CreateSnapshot(pb.SnapshotOrder(table=name, dry_run=False))
    assert snapshot.id
    changed = client.SnapshotService.ChangeSnapshot(pb.ChangeSnapshotRequest(id=snapshot.id, change="stop"))
    assert changed.state == "stopped"
    replay = client.DeadLetterService.Replay(pb.DeadLetterOrder(entity="queue", dry_run=False, safe=False))
    assert client.DeadLetterService.GetOperation(pb.GetOperationRequest(id=replay.id)).kind == "replay"
    client.DeadLetterService.StopOperation(pb.StopOperationRequest(id=replay.id))
    other = server.desk.dead_letters.counts().items[1].entity
    assert client.DeadLetterService.Purge(pb.DeadLetterOrder(entity=other, dry_run=False)).kind == "purge"
    source = pb.SourceOrder(name="dbo.New", dry_run=False)
    added = client.SourceService.AddSource(pb.PutSourceRequest(order=source))
    assert added.applied
    source.settings.update({"page_rows": 500})
    revised = client.SourceService.ChangeSource(pb.PutSourceRequest(order=source, revision=added.revision))
    assert client.SourceService.RemoveSource(pb.RemoveSourceRequest(name="dbo.New", revision=revised.revision)).dry_run
    output = pb.OutputOrder(name="copy", type="elasticsearch", dry_run=False)
    output.settings.update({"url": "https://search.example"})
    assert client.OutputService.AddOutput(pb.PutOutputRequest(order=output)).applied
    assert client.OutputService.ChangeOutput(pb.PutOutputRequest(order=output)).applied
    assert client.OutputService.RemoveOutput(pb.RemoveOutputRequest(name="copy", dry_run=False)).applied
    seen = client.ConfigurationService.GetConfiguration(pb.GetConfigurationRequest()).revision
    undo = pb.UndoRequest(revision=seen, dry_run=False, reason="no")
    assert client.ConfigurationService.Undo(undo).applied
    lines = client.AuditService.ListAuditLines(pb.ListAuditLinesRequest(most=1000)).items
    assert {each.through for each in lines} == {"grpc"}
    assert {each.who for each in lines} == {"anna"}
    assert {"table.pause", "dead_letters.replay", "output.add", "configuration.undo"} <= {each.action for each in lines}


def test_the_number_of_a_request_is_that_of_its_audit_line(started: Started) -> None:
    server = started()
    client, pb = server.client(), server.pb
    name = server.desk.watching.tables()[0].table
    _, call = client.TableService.PauseTable.with_call(pb.PauseTableRequest(name=name))
    line = client.AuditService.ListAuditLines(pb.ListAuditLinesRequest(most=1)).items[0]
    assert dict(call.trailing_metadata())["dstream-request"] == line.request
    assert line.address == "127.0.0.1"


def test_a_list_of_a_thousand_tables_comes_whole_or_in_pages(started: Started) -> None:
    server = started(lively_desk(tables=1000))
    client, pb = server.client(), server.pb
    whole = client.TableService.ListTables(pb.ListTablesRequest())
    assert (len(whole.items), whole.total, whole.HasField("next")) == (1000, 1000, False)
    names, after = [], None
    while True:
        page = client.TableService.ListTables(pb.ListTablesRequest(most=300, after=after))
        names += [each.table for each in page.items]
        if not page.HasField("next"):
            break
        after = page.next
    assert names == [each.table for each in whole.items]
    worst = client.TableService.ListTables(pb.ListTablesRequest(sort="lag", most=1, states=["behind"])).items
    assert [each.state for each in worst] == ["behind"]


@pytest.mark.parametrize(
    ("service", "method", "request_of", "code", "text"),
    [
        ("TableService", "GetTable", "GetTableRequest(name='dbo.None')", "NOT_FOUND", "no table dbo.None"),
        ("TableService", "ListTables", "ListTablesRequest(most=0)", "INVALID_ARGUMENT", "most: must be from 1 to 1000"),
        ("TableService", "ListTables", "ListTablesRequest(after='x')", "INVALID_ARGUMENT", "after: it is not from"),
        ("TableService", "ListTables", "ListTablesRequest(states=['odd'])", "INVALID_ARGUMENT", "states: must be of"),
        ("TableService", "ListTables", "ListTablesRequest(sort='odd')", "INVALID_ARGUMENT", "sort: 'odd' is none of"),
        (
            "SnapshotService",
            "ChangeSnapshot",
            "ChangeSnapshotRequest(id='a', change='b')",
            "INVALID_ARGUMENT",
            "change:",
        ),
        ("SnapshotService", "ChangeSnapshot", "ChangeSnapshotRequest(id='a', change='stop')", "NOT_FOUND", "snapshot"),
        ("MessageService", "ListMessages", "ListMessagesRequest(entity='none')", "NOT_FOUND", "no entity none"),
        (
            "MessageService",
            "ListMessages",
            "ListMessagesRequest(entity='queue', most=1001)",
            "INVALID_ARGUMENT",
            "most",
        ),
        (
            "DeadLetterService",
            "PlanReplay",
            "DeadLetterOrder(entity='queue', most_replays=0)",
            "INVALID_ARGUMENT",
            "most_",
        ),
        ("DeadLetterService", "GetOperation", "GetOperationRequest(id='none')", "NOT_FOUND", "none"),
        (
            "SourceService",
            "AddSource",
            "PutSourceRequest(order=SourceOrder(name='a'*301))",
            "INVALID_ARGUMENT",
            "order.name",
        ),
        ("ConfigurationService", "Undo", "UndoRequest(revision='a', reason='a'*401)", "INVALID_ARGUMENT", "reason"),
        ("ConfigurationService", "Undo", "UndoRequest(dry_run=False)", "INVALID_ARGUMENT", "revision"),
    ],
)
def test_a_bad_request_is_answered_with_code_text_and_remedy(
    started: Started, service: str, method: str, request_of: str, code: str, text: str
) -> None:
    server = started()
    made = eval(request_of, dict(vars(server.pb)))
    error: Any = refusal(getattr(getattr(server.client(), service), method), made)
    assert error.code().name == code
    assert text in error.details()
    info, status = details(error)
    assert (info.domain, status.code, status.message) == ("dstream", error.code().value[0], error.details())
    assert info.reason in ("NOT_FOUND", "CONFIGURATION_ERROR")


def test_a_conflict_is_a_failed_precondition(started: Started) -> None:
    server = started()
    paused = next(each.table for each in server.desk.watching.tables() if each.state == "paused")
    error: Any = refusal(server.client().TableService.PauseTable, server.pb.PauseTableRequest(name=paused))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert details(error)[0].reason == "CONFLICT"


def test_bytes_that_are_no_message_are_refused(started: Started) -> None:
    channel = started().client().channel
    error: Any = refusal(channel.unary_unary("/dstream.v1.TableService/GetTable"), b"\xff\xff\xff")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "not the message of this method" in error.details()


def test_a_request_beyond_the_limit_is_refused(started: Started) -> None:
    server = started()
    error: Any = refusal(server.client().TableService.GetTable, server.pb.GetTableRequest(name="a" * (1 << 20)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_answer_beyond_the_limit_is_refused_with_what_to_do(started: Started) -> None:
    server = started(lively_desk(tables=100), sizes=Sizes(answer_bytes=10_000))
    client, pb = server.client(), server.pb
    error: Any = refusal(client.TableService.ListTables, pb.ListTablesRequest())
    assert "ask for less with `most`" in error.details()
    assert len(client.TableService.ListTables(pb.ListTablesRequest(most=5)).items) == 5


class Broken:
    """In place of `watching`."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def overview(self) -> Overview:
        raise self.error


def broken(error: Exception) -> Desk:
    return replace(lively_desk(), watching=Broken(error))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (TransientError("reading failed", hint="wait"), "UNAVAILABLE"),
        (Throttled("busy"), "RESOURCE_EXHAUSTED"),
        (ConfigurationError(["wrong"] * 500), "INVALID_ARGUMENT"),
        (TransientError("ü" * 5000, hint="ü" * 5000), "UNAVAILABLE"),
        (RuntimeError("value of a row"), "INTERNAL"),
    ],
)
def test_what_a_store_answers_comes_with_its_code(started: Started, raised: Exception, code: str) -> None:
    """However long it is: clients refuse headers of more than 8 KiB."""
    server = started(broken(raised))
    error: Any = refusal(server.client().OverviewService.GetOverview, server.pb.GetOverviewRequest())
    assert error.code().name == code
    assert "value of a row" not in error.details()
    info, _ = details(error)
    hint = getattr(raised, "hint", None)
    assert ("remedy" in info.metadata) == (hint is not None)


@pytest.fixture
def answers() -> Iterator[threading.Event]:
    """Until it is set, a slow desk does not answer."""
    made = threading.Event()
    yield made
    made.set()


def slow(answers: threading.Event) -> Desk:
    desk = lively_desk()

    class Slow:
        def overview(self) -> Overview:
            assert answers.wait(120)
            return desk.watching.overview()

    return replace(desk, watching=Slow())  # type: ignore[arg-type]


def test_the_deadline_of_a_client_holds(started: Started, answers: threading.Event) -> None:
    server = started(slow(answers))
    error: Any = refusal(server.client().OverviewService.GetOverview, server.pb.GetOverviewRequest(), timeout=0.3)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    answers.set()


def test_the_server_has_its_own_deadline(started: Started, answers: threading.Event) -> None:
    calls = Calls({**Calls().bounds, "seen": Bounds(threads=1, waiting=1, within=0.3)})
    server = started(slow(answers), calls=calls)
    error: Any = refusal(server.client().OverviewService.GetOverview, server.pb.GetOverviewRequest())
    answers.set()
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert "ask again" in error.details()


def test_calls_beyond_what_can_wait_are_refused_with_a_pause(started: Started, answers: threading.Event) -> None:
    calls = Calls({**Calls().bounds, "seen": Bounds(threads=1, waiting=1, within=60)})
    server = started(slow(answers), calls=calls)
    client, pb = server.client(), server.pb
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(client.OverviewService.GetOverview, pb.GetOverviewRequest()) for _ in range(2)]
        deadline = time.monotonic() + 60
        while calls.pools["seen"]._unended < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        error: Any = refusal(client.OverviewService.GetOverview, pb.GetOverviewRequest())
        answers.set()
        assert [each.result().server for each in waiting]
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    pause = error_details_pb2.RetryInfo()
    assert details(error)[1].details[1].Unpack(pause)
    assert pause.retry_delay.seconds == 2


def _with(client: Client, pb: Any, *metadata: tuple[str, str]) -> Any:
    return refusal(client.OverviewService.GetOverview, pb.GetOverviewRequest(), metadata=metadata)


def test_a_token_is_needed_where_one_is_set(started: Started) -> None:
    server = started(token=TOKEN)
    client, pb = server.client(), server.pb
    for metadata in (
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", TOKEN),),
        (("cookie", f"a={TOKEN}"),),
    ):
        error = _with(client, pb, *metadata)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert TOKEN not in error.details()
    right = (("authorization", f"Bearer {TOKEN}"),)
    assert client.OverviewService.GetOverview(pb.GetOverviewRequest(), metadata=right).server
    name = server.desk.watching.tables()[0].table
    client.TableService.PauseTable(pb.PauseTableRequest(name=name), metadata=right)
    assert server.desk.audit.lines(after=None, most=1).items[0].who == "token"


def test_who_guesses_tokens_is_held_up(started: Started) -> None:
    server = started(token=TOKEN, limits=Limits())
    client, pb = server.client(), server.pb
    codes = [_with(client, pb, ("authorization", f"Bearer guess-{number}")).code().name for number in range(7)]
    assert codes == ["UNAUTHENTICATED"] * 5 + ["RESOURCE_EXHAUSTED"] * 2


def test_a_console_that_is_read_only_changes_nothing(started: Started) -> None:
    server = started(allow_changes=False)
    client, pb = server.client(), server.pb
    name = server.desk.watching.tables()[0].table
    error: Any = refusal(client.TableService.PauseTable, pb.PauseTableRequest(name=name))
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "--allow-changes" in details(error)[0].metadata["remedy"]
    assert client.TableService.GetTable(pb.GetTableRequest(name=name)).state != "paused"


def test_who_asks_too_often_is_held_up(started: Started) -> None:
    limits = Limits(requests=Limit("requests", Rate(0.1, 3)))
    server = started(limits=limits)
    client, pb = server.client(), server.pb
    for _ in range(3):
        client.OverviewService.GetOverview(pb.GetOverviewRequest())
    assert _with(client, pb).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
