"""Chooses what is behind the ports of `desk.py`: the one place that names implementations. A part whose settings are missing is absent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, cast

from common.buses import shelves_of
from desk.audit import AuditFile, default_place
from desk.configuring.making import configuring_of
from desk.console.absent import Absent
from desk.console.options import Options
from desk.console.present import Present
from desk.desk import Audit, Configuring, DeadLetters, Desk, Messages, NotFound, Tables, Watching
from desk.documents.tables import Pause
from desk.importing import imported
from desk.status import Stages
from desk.tables import StoredTables
from desk.watching.making import watching_of
from desk.watching.watch import StoresWatching

_BOTH = "start the console where the settings of both stages are set, without --stage"


def audit_of(options: Options) -> Audit:
    """Raises PermanentError where no line can be kept, ConfigurationError without a place."""
    audit = AuditFile(options.audit_file or default_place())
    audit.prepare()
    return audit


def _tables(present: Present, watching: StoresWatching) -> Tables:
    if present.now().ingester is None:
        return cast(Tables, Absent("this console cannot change tables", _BOTH))
    return StoredTables(present.now, watching)


@contextmanager
def desk_of(stages: Stages, options: Options, audit: Audit, stop: threading.Event) -> Iterator[Desk]:
    """The desk of these stages, while its context is open; not audited. Raises ConfigurationError."""
    present = Present(stages, options.load)
    with ExitStack() as stack:
        watching = stack.enter_context(
            watching_of(
                present.as_stages(),
                scrape=options.scrape,
                changes_allowed=options.allow_changes,
                look_every=options.look_every,
                stop=stop,
            )
        )
        yield Desk(
            watching=watching,
            tables=_tables(present, watching),
            messages=_messages_of(present, watching, stack),
            dead_letters=_dead_letters_of(present, options, audit, stack),
            configuring=_configuring_of(options),
            audit=audit,
        )


def _messages_of(present: Present, watching: Watching, stack: ExitStack) -> Messages:
    first = present.now()
    if first.ingester is None or first.router is None:
        return cast(Messages, Absent("this console cannot look at messages", _BOTH))
    module = imported("desk.messages.messages")

    def pause_of(table: str) -> Pause | None:
        try:
            return watching.table(table).pause
        except NotFound:
            return None

    kept: list[tuple[Stages, Any]] = []

    def configured() -> Any:
        """Made once for each configuration."""
        stages = present.matched()
        if not kept or kept[0][0] is not stages:
            kept[:] = [(stages, module.configured(stages.ingester, stages.router))]
        return kept[0][1]

    found: Messages = stack.enter_context(closing(module.DeskMessages(configured, shelves_of, pause_of)))
    return found


def _dead_letters_of(present: Present, options: Options, audit: Audit, stack: ExitStack) -> DeadLetters:
    first = present.now()
    if first.router is None:
        return cast(DeadLetters, Absent("this console cannot handle dead letters", _BOTH))
    module = imported("desk.dead_letters.making")

    def newer() -> Any:
        ingester = present.matched().ingester
        return None if ingester is None else imported("ingester.commands.changes").newer_changes(ingester)

    path = options.audit_file or default_place()
    made = module.dead_letters_of(lambda: present.matched().router, newer, audit, path)
    found: DeadLetters = stack.enter_context(closing(made))
    return found


def _configuring_of(options: Options) -> Configuring:
    if options.judge is None or options.reads is None:
        return cast(Configuring, Absent("this console cannot change the configuration", _BOTH))
    state = (options.audit_file or default_place()).parent
    return configuring_of(
        options.config,
        options.configmap,
        judge=options.judge,
        reads=options.reads,
        state=state,
        allowed=options.allowed,
    )
