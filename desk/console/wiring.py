"""Chooses what is behind the ports of `desk.py`: the one place that names implementations. A part whose settings are missing is absent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

from desk.audit import AuditFile, default_place
from desk.configuring.making import configuring_of
from desk.console.absent import Absent
from desk.console.options import Options
from desk.desk import Audit, Configuring, DeadLetters, Desk, Messages, Tables
from desk.status import Stages
from desk.watching.making import watching_of

_BOTH = "start the console where the settings of both stages are set, without --stage"


def audit_of(options: Options) -> Audit:
    """Raises PermanentError where no line can be kept, ConfigurationError without a place."""
    audit = AuditFile(options.audit_file or default_place())
    audit.prepare()
    return audit


@contextmanager
def desk_of(stages: Stages, options: Options, audit: Audit, stop: threading.Event) -> Iterator[Desk]:
    """The desk of these stages, while its context is open; not audited. Raises ConfigurationError."""
    with ExitStack() as stack:
        watching = stack.enter_context(
            watching_of(
                stages,
                scrape=options.scrape,
                changes_allowed=options.allow_changes,
                look_every=options.look_every,
                stop=stop,
            )
        )
        yield Desk(
            watching=watching,
            tables=cast(Tables, Absent("this console cannot change tables", _BOTH)),
            messages=cast(Messages, Absent("this console cannot look at messages", _BOTH)),
            dead_letters=cast(DeadLetters, Absent("this console cannot handle dead letters", _BOTH)),
            configuring=_configuring_of(options),
            audit=audit,
        )


def _configuring_of(options: Options) -> Configuring:
    if options.judge is None or options.reads is None:
        return cast(Configuring, Absent("this console cannot change the configuration", _BOTH))
    state = (options.audit_file or default_place()).parent
    return configuring_of(options.config, options.configmap, judge=options.judge, reads=options.reads, state=state)
