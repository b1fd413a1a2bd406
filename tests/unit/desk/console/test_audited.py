"""Every way to change something goes through the keeper: allowed, counted, and written down before and after."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from common.errors import PermanentError
from desk.console.audited import Keeper, audited
from desk.console.limits import Limit, Limits, Rate
from desk.console.refusals import AuditUnavailable, GivenUp, NotAllowed, TooMany
from desk.desk import Actor, Configuring, Conflict, DeadLetters, Desk, Messages, NotFound, Tables, Watching
from desk.documents.configuring import OutputOrder, SourceOrder
from desk.documents.messages import DeadLetterOrder, MessageFilter
from desk.documents.tables import OffsetOrder, PauseOrder, SnapshotOrder
from desk.patience import waited_for
from tests.fakes.desk import FakeAudit, World, desk_of

ACTOR = Actor("anna", "http", "r1", "10.0.0.1")
PORTS: dict[str, type] = {
    "watching": Watching,
    "tables": Tables,
    "messages": Messages,
    "dead_letters": DeadLetters,
    "configuring": Configuring,
}
GIVEN: dict[type, Callable[[bool], Any]] = {
    PauseOrder: lambda dry: PauseOrder(),
    OffsetOrder: lambda dry: OffsetOrder(earliest=True, dry_run=dry),
    SnapshotOrder: lambda dry: SnapshotOrder(table="dbo.Orders", dry_run=dry),
    DeadLetterOrder: lambda dry: DeadLetterOrder(entity="queue", dry_run=dry),
    SourceOrder: lambda dry: SourceOrder(name="a.*", dry_run=dry),
    OutputOrder: lambda dry: OutputOrder(name="a", type="kafka", dry_run=dry),
}


def changing() -> Iterator[tuple[str, str]]:
    """Each method of a port that is told who asks."""
    for part, port in PORTS.items():
        for name, method in inspect.getmembers(port, inspect.isfunction):
            if not name.startswith("_") and "actor" in inspect.signature(method).parameters:
                yield part, name


METHODS = sorted(changing())


class Recorder:
    """Stands for a part: what was called of it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.called = list[str]()
        self.error = error

    def __getattr__(self, name: str) -> Any:
        def called(*given: object, **named: object) -> object:
            self.called.append(name)
            if self.error is not None:
                raise self.error
            return None

        return called


def world() -> World:
    return World(tables=8, seed=1, changes_allowed=True, dead=5, now=lambda: 1e9, look_every=1)


def parts(
    error: BaseException | None = None, *, allow: bool = True, limits: Limits | None = None
) -> tuple[Desk, Recorder, FakeAudit]:
    recorder, found = Recorder(error), desk_of(world())
    assert isinstance(found.audit, FakeAudit)
    bare: Any = recorder
    desk = Desk(bare, bare, bare, bare, bare, found.audit)
    return audited(desk, allow_changes=allow, limits=limits or Limits()), recorder, found.audit


def call(desk: Desk, part: str, method: str, *, dry: bool = False) -> Any:
    asked = getattr(desk, part)
    hints = get_type_hints(getattr(PORTS[part], method))
    given = dict[str, Any]()
    for name in inspect.signature(getattr(PORTS[part], method)).parameters:
        if name == "actor":
            given[name] = ACTOR
        elif hints.get(name) in GIVEN:
            given[name] = GIVEN[hints[name]](dry)
        elif name not in ("self", "reason"):
            given[name] = {"dry_run": dry, "new": True, "change": "stop", "revision": None}.get(name, "dbo.Orders")
    return getattr(asked, method)(**given)


def test_there_are_as_many_changes_as_the_ports_have() -> None:
    assert len(METHODS) >= 13
    assert ("tables", "pause") in METHODS
    assert {part for part, _ in METHODS} == {"tables", "dead_letters", "configuring"}


def test_of_a_text_in_a_filter_its_length_alone_is_written_down() -> None:
    desk, _, audit = parts()
    desk.dead_letters.replay(DeadLetterOrder(entity="queue", filter=MessageFilter(text="Ada"), dry_run=False), ACTOR)
    [line] = audit.written
    assert "Ada" not in repr(line)
    assert "3 characters" in repr(line)


@pytest.mark.parametrize(("part", "method"), METHODS)
def test_a_change_is_written_down_before_it_is_made_and_after(part: str, method: str) -> None:
    desk, recorder, audit = parts()
    call(desk, part, method)
    assert recorder.called == [method]
    ends_later = method in ("replay", "purge")  # in the background, where its last line is written
    assert [line.outcome for line in audit.written] == (["begun"] if ends_later else ["begun", "done"])
    assert {(line.who, line.request, line.address) for line in audit.written} == {("anna", "r1", "10.0.0.1")}


@pytest.mark.parametrize(("part", "method"), METHODS)
def test_a_read_only_console_makes_none_and_says_so(part: str, method: str) -> None:
    desk, recorder, audit = parts(allow=False)
    with pytest.raises(NotAllowed, match="--allow-changes"):
        call(desk, part, method)
    assert recorder.called == []
    assert [line.outcome for line in audit.written] == ["refused"]


@pytest.mark.parametrize(("part", "method"), METHODS)
def test_a_change_whose_line_cannot_be_kept_is_not_made(part: str, method: str) -> None:
    desk, recorder, audit = parts()
    audit.full = True
    with pytest.raises(AuditUnavailable, match="no space left"):
        call(desk, part, method)
    assert recorder.called == []


@pytest.mark.parametrize(("part", "method"), METHODS)
def test_changes_are_counted(part: str, method: str) -> None:
    desk, recorder, audit = parts(limits=Limits(changes=Limit("changes", Rate(0.1, 1))))
    call(desk, part, method)
    with pytest.raises(TooMany):
        call(desk, part, method)
    assert len(recorder.called) == 1
    assert len(audit.written) <= 2


def test_a_dry_run_is_allowed_anywhere_and_leaves_no_line() -> None:
    desk, recorder, audit = parts(allow=False)
    for part, method in METHODS:
        try:
            call(desk, part, method, dry=True)
        except NotAllowed:
            assert method in ("pause", "resume", "change_snapshot", "stop")  # there is no dry run of these
    assert {"move_offset", "snapshot", "replay", "purge", "put_source", "undo"} <= set(recorder.called)
    assert all(line.outcome == "refused" for line in audit.written)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Conflict("it is over"), "refused"),
        (NotFound("there is none"), "refused"),
        (PermanentError("the server has said no"), "failed"),
        (ValueError("a secret value"), "failed"),
        (KeyboardInterrupt(), "failed"),
    ],
)
def test_a_change_that_does_not_succeed_is_written_down_with_why(error: BaseException, outcome: str) -> None:
    desk, _, audit = parts(error)
    with pytest.raises(type(error)):
        call(desk, "tables", "pause")
    assert audit.written[-1].outcome == outcome
    assert audit.written[-1].details["why"]
    assert "secret" not in repr(audit.written)


def test_a_change_whose_end_cannot_be_written_down_is_still_answered() -> None:
    desk, recorder, audit = parts()
    keeper: Keeper = desk.tables.keeper  # type: ignore[attr-defined]

    def made() -> str:
        audit.full = True
        return "made"

    assert keeper.change(ACTOR, "x", "y", made) == "made"
    assert [line.outcome for line in audit.written] == ["begun"]
    assert recorder.called == []


def test_a_method_that_is_added_to_a_port_is_missed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would see it: it is not written down."""

    def drop(self: object, name: str, actor: Actor) -> None: ...

    monkeypatch.setattr(Tables, "drop", drop, raising=False)
    assert ("tables", "drop") in set(changing())
    desk, _, _ = parts()
    with pytest.raises(AttributeError):
        call(desk, "tables", "drop")


def test_the_log_has_where_changes_go_and_no_secret() -> None:
    desk, _, audit = parts(PermanentError("router.output.a.url names https://u:S3cr3t@x.example"))
    routes = [{"from": ["*.*"], "to": ["evil"], "when": "after.Name == 'Ada'", "topic": "all"}]
    order = OutputOrder(name="a", type="kafka", settings={"tls": None, "key": "x"}, routes=routes, dry_run=False)
    with pytest.raises(PermanentError):
        desk.configuring.put_output(order, None, ACTOR, new=True)
    begun, ended = audit.written
    assert begun.details["removed"] == ["tls"]
    assert begun.details["routes"] == ["from: ['*.*']; to: ['evil']; topic: all"]
    assert ended.details == {"why": "PermanentError router.output.a.url"}


def test_a_refused_order_of_half_a_megabyte_is_a_short_line_without_secrets() -> None:
    desk = audited(desk_of(world()), allow_changes=False, limits=Limits())
    order = OutputOrder(
        name="n" * 90, dry_run=False, type="kafka", settings={f"{'s' * 3000}{each}": "v" for each in range(150)}
    )
    with pytest.raises(NotAllowed):
        desk.configuring.put_output(order, None, ACTOR, new=True)
    assert isinstance(desk.audit, FakeAudit)
    assert len(desk.audit.written[-1].model_dump_json()) < 6000


def test_addresses_of_this_machine_have_one_limit() -> None:
    limits = Limits(changes=Limit("changes", Rate(per_second=0.001, burst=2)))
    desk = audited(desk_of(world()), allow_changes=False, limits=limits)
    for last in range(2):
        with pytest.raises(NotAllowed):
            desk.tables.pause("dbo.T", PauseOrder(), replace(ACTOR, address=f"127.0.0.{last + 1}"))
    with pytest.raises(TooMany):
        desk.tables.pause("dbo.T", PauseOrder(), replace(ACTOR, address="127.9.9.9"))


def test_a_change_that_nobody_waits_for_is_not_begun() -> None:
    desk, recorder, audit = parts()
    with waited_for(time.monotonic()), pytest.raises(GivenUp, match="before it was begun"):
        desk.configuring.put_source(SourceOrder(name="a.b", dry_run=False), None, ACTOR, new=True)
    assert not recorder.called
    assert [line.outcome for line in audit.written] == ["begun", "refused"]
    assert "late" in audit.written[-1].details


def test_a_change_that_was_made_too_late_says_so() -> None:
    audit = parts()[2]
    with waited_for(time.monotonic() + 1):
        Keeper(audit, Limits(), True).change(ACTOR, "table.pause", "dbo.Orders", lambda: time.sleep(1))
    assert [line.outcome for line in audit.written] == ["begun", "done"]
    assert audit.written[-1].details == {"late": "its caller had no answer in time"}
