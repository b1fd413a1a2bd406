"""Takes in the catalog: what each table remembers of it, when to read it again, and what to log, each thing once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError
from ingester.driver.tables import TrackedTable, drift, superseded_notes
from ingester.shape.columns import SLIPS
from ingester.shape.summary import doubts, in_clear, left_out, limits, masked, sent_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CaptureInstance, Hints, TableState

log = structlog.get_logger("ingester")

_CATALOG_SECONDS = 30.0
"""How old the list of capture instances may be. A new instance is filled next to the old one for far longer."""
_LATE = 2.0
"""How many times as old it may become while tables change all the time, and would wait while it is read."""
_SHARE = 30.0
"""The list of thousands of tables is read for seconds: it may take one part in so many of the time."""
_LONGEST_SECONDS = 300.0
"""Whatever it takes: for so long a new capture instance, or a column that none captures, may go unnoticed; or `_LATE` times as long."""
_READINGS = 4
_FIRST_SECONDS = 3.0
"""What one reading may say of the next: the first one often takes longer, or waits for a lock."""


class CatalogAge:
    """When to read the list of capture instances again, and whether the server refuses it.

    If the server refuses the list, for example while a table is altered, the known one is used. A probe notices
    instances that are created or dropped, and a page notices altered columns.
    """

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._read_at = self._refused_at = float("-inf")
        self._readings = deque([_FIRST_SECONDS], _READINGS)
        """What the last ones took. The quickest says what the list takes: the others waited for something else."""
        self._refusal: DStreamError | None = None
        self._reported = False

    def due(self, *, missing: bool, quiet: Callable[[], float]) -> bool:
        """`missing`: there are tables without known capture instances. `quiet`: seconds in which no change waits for the loop."""
        if missing or not self.may_ask:
            return self.may_ask
        age = self._clock() - self._read_at
        takes = min(self._readings)
        often = min(max(_CATALOG_SECONDS, _SHARE * takes), _LONGEST_SECONDS)
        return age >= often and (age >= _LATE * often or quiet() >= takes)

    @property
    def may_ask(self) -> bool:
        """False for a while after a refusal, because each query waits for a lock."""
        return self._clock() - self._refused_at >= _CATALOG_SECONDS

    @property
    def refused(self) -> bool:
        """Whether the server refused the list the last time."""
        return self._refusal is not None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While its context is open, the list is read. It is known if that ends without an error."""
        began = self._clock()
        yield
        self._readings.append(self._clock() - began)
        if self._reported:
            log.info("the list of capture instances was read again")
        self._read_at, self._refused_at = self._clock(), float("-inf")
        self._refusal, self._reported = None, False

    def refuse(self, error: DStreamError) -> None:
        """The server refused the list: go on with the known one."""
        self._refusal, self._refused_at = error, self._clock()

    def outdated(self) -> None:
        """The known list may no longer be true."""
        self._read_at = self._refused_at = float("-inf")

    def report(self) -> None:
        """Log a refusal once, when the server has answered everything else."""
        if self._refusal is not None and not self._reported:
            self._reported = True
            log.warning(
                "the list of capture instances cannot be read, using the known ones, retrying",
                error=self._refusal.message,
                hint=self._refusal.hint,
            )


def take_in(table: TrackedTable, state: TableState, hints: Hints) -> None:
    """Note what the catalog says of `table`. Only the ingester that reads it logs hints about its capture instances."""
    if (renamed := table.take_in(state)) is not None:
        log.warning(renamed)
    _absence(table, hints.absence(table.name, state))
    if table.lease is not None:
        for note in superseded_notes(table, hints):
            log.info(note)
        _drift(table, drift(state, hints, table.offset))


def _absence(table: TrackedTable, reason: str | None) -> None:
    if reason != table.absence:
        if reason:
            report = log.warning if table.offset is None else log.error
            report(f"{reason}; later passes look for it again")
        else:
            log.info("table found", table=table.name.key)
    table.absence = reason


def _drift(table: TrackedTable, found: str | None) -> None:
    if found is not None and found != table.drift:
        log.warning(found)
    elif found is None and table.drift is not None:
        log.info("capture instance matches the table again", table=table.name.key)
    table.drift = found


def note_slips(names: Sequence[str]) -> None:
    """Log names in the defaults of shapes that no table captures: a mask that masks nothing."""
    if names:
        log.warning(
            "shape names columns that no table captures",
            columns=list(names),
            hint=SLIPS,
        )


def note_shape(table: TrackedTable, shape: TableShape, instance: CaptureInstance, epoch: int) -> None:
    """Log from where on `shape`, which fits `instance`, holds, and what may not be meant: once until it is another one. With the epoch, because
    another ingester may have read the table meanwhile."""
    said, table.shaped = table.shaped, (shape, instance.name, instance.columns, epoch)
    if said is None and shape == AS_CAPTURED:
        table.shaped = None
    if said == table.shaped:
        return
    sent = sent_of(shape, instance)
    log.info(
        "shape in force",
        table=table.name.key,
        after="the beginning" if table.offset is None else str(table.offset),
        capture_instance=instance.name,
        clear=in_clear(sent),
        masked=masked(sent),
        not_sent=left_out(instance, sent),
        changes="; ".join(limits(shape)) or "all",
    )
    for doubt, hint in doubts(shape, instance, sent):
        log.warning("shape may be wrong", table=table.name.key, doubt=doubt, hint=hint)


def note_held(table: TrackedTable, locked: str | None, hint: str) -> None:
    """Log once that another session's lock on the change table keeps `table` from being read, and once its end."""
    if locked is not None and not table.held:
        log.warning(
            "change table is locked by another session, retrying",
            table=table.name.key,
            change_table=locked,
            hint=hint,
        )
    elif table.held and locked is None:
        log.info("change table is no longer locked", table=table.name.key)
    table.held = locked is not None


class CaptureHold:
    """Whether a transaction of capture keeps readers from seeing how far it has come. Logged once, and its end once."""

    def __init__(self) -> None:
        self._held = False

    def note(self, *, held: bool, hint: str) -> None:
        if held and not self._held:
            log.warning(
                "capture holds the log's times, going on up to what it had captured before",
                hint=hint,
            )
        elif self._held and not held:
            log.info("capture no longer holds the log's times")
        self._held = held
