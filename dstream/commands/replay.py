"""`dstream replay`: the changes of a range once more, to another topic. No stage has to run, and the offset stays where it is."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.errors import ConfigurationError, DStreamError, PermanentError
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel, moment
from dstream.printing import print_lines
from dstream.reporting import OK, report
from dstream.starting import imported, logged

if TYPE_CHECKING:
    from ingester.commands.replay import ReplayPlan
    from ingester.history.replay import Replay
    from ingester.task.replay import ReplayProgress
    from router.outputs.port import Output

_LSN = re.compile(r"0[xX].*|[0-9A-Fa-f]{20}")
_BLINK = 0.2
_ENDS_WITHIN = 20.0


def replay(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.")],
    begin: Annotated[
        str,
        typer.Option("--from", metavar="TIME|LSN", help="The first commit, or its LSN. ISO 8601; UTC without a zone."),
    ],
    to_topic: Annotated[str, typer.Option("--to-topic", metavar="NAME", help="The topic that gets the changes.")],
    end: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME|LSN", help="The last commit (default: all that is captured now)."),
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option("--subscription", metavar="NAME", help="Created on it (default: router.subscriptions)."),
    ] = None,
    max_rate: Annotated[
        int | None,
        typer.Option("--max-rate", min=1, metavar="N", help="The most changes a second (default: no limit)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would send, and change nothing.")] = False,
    config: Config = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Send the captured changes of a range again, to another topic.

    The offset stays where it is. The exit status is 1 if not all was sent.
    """
    from dstream.config import load_both
    from dstream.starting import loaded

    logged(log_level, log_format)
    borders = _target(begin, "--from"), None if end is None else _target(end, "--to")
    settings, router = loaded(load_both, config)
    name = imported("router.side_topic").named(router, to_topic, subscription)
    settings = imported("ingester.commands.stores").with_matches(settings)
    plan: ReplayPlan = imported("ingester.commands.replay").planned(settings, table, *borders, name)
    if dry_run:
        print_lines([*_lines(plan), "nothing was sent: --dry-run"])
        return OK
    return _sent(plan, settings, router, subscription, max_rate)


def _sent(plan: ReplayPlan, settings: Any, router: Any, subscription: str | None, max_rate: int | None) -> int:
    """Send it; the exit status."""
    from dstream.signals import interruptible

    topic, run = plan.replay.topic, imported("ingester.commands.replay").run
    provide, senders = imported("router.side_topic").provide, imported("router.envelopes.sender").in_envelope
    progress: ReplayProgress = imported("ingester.task.replay").ReplayProgress()
    output = imported("router.outputs.registry").output_of(router.output, router.around)
    stream = imported("router.outputs.places").stream_of(router.output, router.origin, topic, None)
    with interruptible(_ENDS_WITHIN) as interruption, closing(output):
        stop = interruption.stop
        try:
            with _cut(output, stop):
                provide(router, topic, subscription, routed=False, stop=stop)
                with closing(senders(router.output, output.sender)(stream)) as sender:
                    sender.open()
                    _announce(plan)
                    run(settings, plan.replay, sender, stop, most_rate=max_rate, progress=progress)
        except DStreamError as error:
            if stop.is_set():
                report(_how_far("stopped", plan.replay, progress, None))
                return interruption.status
            raise _ended(error, plan.replay, progress) from error
    print_lines([_result(plan, progress)])
    return OK


def _target(text: str, option: str) -> Any:
    target = imported("ingester.commands.offsets").Target
    return target(lsn=text) if _LSN.fullmatch(text.strip()) else target(time=moment(text, option))


def _lines(plan: ReplayPlan) -> Iterator[str]:
    yield f"table:    {plan.replay.table.key}"
    yield f"from:     {plan.begin}"
    yield f"to:       {plan.end}"
    yield f"topic:    {plan.replay.topic}"
    yield f"changes:  {plan.span}"


def _announce(plan: ReplayPlan) -> None:
    import structlog

    structlog.get_logger("replay").info(
        "replay started",
        replay=plan.replay.id,
        table=plan.replay.table.key,
        changes=str(plan.span),
        begin=plan.begin,
        end=plan.end,
        topic=plan.replay.topic,
    )


def _result(plan: ReplayPlan, progress: ReplayProgress) -> str:
    one = plan.replay
    return f"replay {one.id}: {_changes(progress)} of {one.table.key} sent to topic {one.topic}, from {plan.begin} to {plan.end}"


def _changes(progress: ReplayProgress) -> str:
    return "1 change" if progress.sent == 1 else f"{progress.sent:,} changes"


def _ended(error: DStreamError, one: Replay, progress: ReplayProgress) -> DStreamError:
    """`error`, with how far the replay came. What cleanup has removed says itself where to go on."""
    if isinstance(error, ConfigurationError):
        return error
    if isinstance(error, imported("ingester.history.replay").CleanedUp):
        return PermanentError(f"{error.message}; {_changes(progress)} were sent", hint=error.hint)
    return _how_far(error.message, one, progress, error.hint)


def _how_far(what: str, one: Replay, progress: ReplayProgress, hint: str | None) -> PermanentError:
    module = imported("ingester.history.replay")
    begin, end = progress.goes_on_from(one), module.lsn_of(one.end)
    command = (
        f"dstream replay {shlex.quote(one.table.key)} --from {begin} --to {end} --to-topic {shlex.quote(one.topic)}"
    )
    upto = "" if progress.committed is None else f", up to the commit of {progress.committed}"
    goes_on = (
        f"to go on: {command} (the transaction at {begin} is sent again)"
        if progress.sent
        else f"to begin again: {command}"
    )
    return PermanentError(
        f"replay {one.id}: {what}; {_changes(progress)} were sent{upto}",
        hint=goes_on if hint is None else f"{hint}; {goes_on}",
    )


@contextmanager
def _cut(output: Output, stop: threading.Event) -> Iterator[None]:
    """Once `stop` is set, calls that wait for the output end."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(_BLINK):
            if stop.is_set():
                output.cut_calls()

    threading.Thread(target=cut, name="cut", daemon=True).start()
    try:
        yield
    finally:
        over.set()
