"""For each method of `api/dstream.proto`: which port it asks, and how. Nobody asks here who the client is or what it may."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from common.errors import ConfigurationError
from desk.console.grpc.documents import fill, fill_all, read
from desk.console.grpc.protocol import message
from desk.console.lists import checked_sort, page_of_tables, topics_of
from desk.desk import Actor, Desk, SnapshotChange
from desk.documents.configuring import OutputOrder, SourceOrder
from desk.documents.messages import DeadLetterOrder, MessageFilter, StoryOrder
from desk.documents.shape import Page
from desk.documents.tables import OffsetOrder, PauseOrder, SnapshotOrder, Table, TableOffset, TableState

MOST_TABLES = 1000
MOST_LINES = 1000
LINES = 100


@dataclass(frozen=True, slots=True)
class Call:
    """`asks`: the port and its method, as `tables.pause`. `changes`: whether it may change anything."""

    asks: str
    answer: Callable[[Desk, Any, Any, Actor], Any]
    changes: bool = False


def _most(asked: Any, otherwise: int, limit: int) -> int:
    if not asked.HasField("most"):
        return otherwise
    if not 1 <= asked.most <= limit:
        raise ConfigurationError([f"most: must be from 1 to {limit}"])
    return int(asked.most)


def _given(asked: Any, field: str) -> Any:
    return getattr(asked, field) if asked.HasField(field) else None


def _items(into: Any, found: Any) -> Any:
    fill_all(into.items, found)
    return into


def _page(into: Any, page: Page[Any]) -> Any:
    if page.next is not None:
        into.next = page.next
    if page.total is not None:
        into.total = page.total
    return _items(into, page.items)


def _overview(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.watching.overview())


def _tables(desk: Desk, asked: Any) -> Page[Table]:
    if set(asked.states) - set(get_args(TableState)):
        raise ConfigurationError([f"states: must be of {', '.join(get_args(TableState))}"])
    return page_of_tables(
        desk.watching.tables(),
        states=asked.states,
        search=_given(asked, "search"),
        sort=checked_sort(asked.sort) if asked.HasField("sort") else "configured",
        after=_given(asked, "after"),
        most=_most(asked, MOST_TABLES, MOST_TABLES),
    )


def _list_tables(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _page(into, _tables(desk, asked))


def _offsets(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    page = _tables(desk, asked)
    shown = [
        TableOffset(table=each.table, offset=each.offset, lag=each.lag, headroom_seconds=each.headroom_seconds)
        for each in page.items
    ]
    return _page(into, Page[TableOffset](items=shown, next=page.next, total=page.total))


def _table(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.watching.table(asked.name))


def _history(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.watching.history(_given(asked, "table")))


def _pause(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.tables.pause(asked.name, read(PauseOrder, asked.order, "order"), actor))


def _resume(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.tables.resume(asked.name, read(PauseOrder, asked.order, "order"), actor))


def _move_offset(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.tables.move_offset(asked.name, read(OffsetOrder, asked.order, "order"), actor))


def _moves(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.tables.moves(_given(asked, "table"), _most(asked, LINES, MOST_LINES)))


def _snapshots(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.tables.snapshots(_given(asked, "table"), _most(asked, LINES, MOST_LINES)))


def _snapshot(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.tables.snapshot(read(SnapshotOrder, asked), actor))


def _change_snapshot(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    if asked.change not in get_args(SnapshotChange):
        raise ConfigurationError([f"change: must be one of {', '.join(get_args(SnapshotChange))}"])
    return fill(into, desk.tables.change_snapshot(asked.id, asked.change, actor))


def _topics(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, topics_of(desk.watching.tables(), desk.watching.entities()))


def _entities(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.watching.entities())


def _unacknowledged(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.watching.unacknowledged())


def _messages(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    found = desk.messages.page(
        asked.entity,
        dead=asked.dead,
        chosen=read(MessageFilter, asked.filter, "filter"),
        after=_given(asked, "after"),
        most=_most(asked, LINES, MOST_LINES),
        newest_first=asked.newest_first,
    )
    return fill(into, found)


def _message(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.messages.message(asked.entity, dead=asked.dead, sequence=asked.sequence))


def _stories(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.messages.stories(read(StoryOrder, asked)))


def _counts(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.counts())


def _plan(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.plan(read(DeadLetterOrder, asked)))


def _replay(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.replay(read(DeadLetterOrder, asked), actor))


def _purge(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.purge(read(DeadLetterOrder, asked), actor))


def _operations(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.dead_letters.operations())


def _operation(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.operation(asked.id))


def _stop(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.dead_letters.stop(asked.id, actor))


def _sources(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.configuring.sources())


def _outputs(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _items(into, desk.configuring.outputs())


def _put_source(new: bool) -> Callable[[Desk, Any, Any, Actor], Any]:
    def put(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
        order = read(SourceOrder, asked.order, "order")
        return fill(into, desk.configuring.put_source(order, _given(asked, "revision"), actor, new=new))

    return put


def _put_output(new: bool) -> Callable[[Desk, Any, Any, Actor], Any]:
    def put(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
        order = read(OutputOrder, asked.order, "order")
        return fill(into, desk.configuring.put_output(order, _given(asked, "revision"), actor, new=new))

    return put


def _dry_run(asked: Any) -> bool:
    return bool(asked.dry_run) if asked.HasField("dry_run") else True


def _reason(asked: Any) -> str | None:
    """As a document would judge it."""
    return read(PauseOrder, message("PauseOrder")(reason=_given(asked, "reason"))).reason


def _remove_source(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    revision, dry_run = _given(asked, "revision"), _dry_run(asked)
    return fill(
        into, desk.configuring.remove_source(asked.name, revision, actor, dry_run=dry_run, reason=_reason(asked))
    )


def _remove_output(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    revision, dry_run = _given(asked, "revision"), _dry_run(asked)
    return fill(
        into, desk.configuring.remove_output(asked.name, revision, actor, dry_run=dry_run, reason=_reason(asked))
    )


def _undo(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    revision, dry_run = _given(asked, "revision"), _dry_run(asked)
    if not revision:
        raise ConfigurationError(
            ["revision: an undo must name the one that was seen, because it undoes the last change of anybody"],
            hint="give revision of GetConfiguration",
        )
    return fill(into, desk.configuring.undo(revision, actor, dry_run=dry_run, reason=_reason(asked)))


def _configuration(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return fill(into, desk.configuring.configuration())


def _lines(desk: Desk, asked: Any, into: Any, actor: Actor) -> Any:
    return _page(into, desk.audit.lines(after=_given(asked, "after"), most=_most(asked, LINES, MOST_LINES)))


CALLS: Mapping[str, Call] = {
    "OverviewService.GetOverview": Call("watching.overview", _overview),
    "TableService.ListTables": Call("watching.tables", _list_tables),
    "TableService.GetTable": Call("watching.table", _table),
    "TableService.GetHistory": Call("watching.history", _history),
    "TableService.PauseTable": Call("tables.pause", _pause, changes=True),
    "TableService.ResumeTable": Call("tables.resume", _resume, changes=True),
    "OffsetService.ListOffsets": Call("watching.tables", _offsets),
    "OffsetService.MoveOffset": Call("tables.move_offset", _move_offset, changes=True),
    "OffsetService.ListMoves": Call("tables.moves", _moves),
    "SnapshotService.ListSnapshots": Call("tables.snapshots", _snapshots),
    "SnapshotService.CreateSnapshot": Call("tables.snapshot", _snapshot, changes=True),
    "SnapshotService.ChangeSnapshot": Call("tables.change_snapshot", _change_snapshot, changes=True),
    "EntityService.ListTopics": Call("watching.entities", _topics),
    "EntityService.ListEntities": Call("watching.entities", _entities),
    "EntityService.ListUnacknowledged": Call("watching.unacknowledged", _unacknowledged),
    "MessageService.ListMessages": Call("messages.page", _messages),
    "MessageService.GetMessage": Call("messages.message", _message),
    "MessageService.FindStories": Call("messages.stories", _stories),
    "DeadLetterService.CountDeadLetters": Call("dead_letters.counts", _counts),
    "DeadLetterService.PlanReplay": Call("dead_letters.plan", _plan),
    "DeadLetterService.Replay": Call("dead_letters.replay", _replay, changes=True),
    "DeadLetterService.Purge": Call("dead_letters.purge", _purge, changes=True),
    "DeadLetterService.ListOperations": Call("dead_letters.operations", _operations),
    "DeadLetterService.GetOperation": Call("dead_letters.operation", _operation),
    "DeadLetterService.StopOperation": Call("dead_letters.stop", _stop, changes=True),
    "SourceService.ListSources": Call("configuring.sources", _sources),
    "SourceService.AddSource": Call("configuring.put_source", _put_source(True), changes=True),
    "SourceService.ChangeSource": Call("configuring.put_source", _put_source(False), changes=True),
    "SourceService.RemoveSource": Call("configuring.remove_source", _remove_source, changes=True),
    "OutputService.ListOutputs": Call("configuring.outputs", _outputs),
    "OutputService.AddOutput": Call("configuring.put_output", _put_output(True), changes=True),
    "OutputService.ChangeOutput": Call("configuring.put_output", _put_output(False), changes=True),
    "OutputService.RemoveOutput": Call("configuring.remove_output", _remove_output, changes=True),
    "ConfigurationService.GetConfiguration": Call("configuring.configuration", _configuration),
    "ConfigurationService.Undo": Call("configuring.undo", _undo, changes=True),
    "AuditService.ListAuditLines": Call("audit.lines", _lines),
}
"""All but EventService.Watch, which `events.py` answers from `watching.changed`."""
