"""The names of files, and what they say. Pure.

    shop/sales.Orders/2026/11/23/20261123T030405123Z-0000003600000b200003.jsonl           finished: a consumer reads it
    _open/shop/sales.Orders/20261123T030405123Z-0000003600000b200003.jsonl.open           lines are added
    _open/shop/sales.Orders/20261123T030405123Z-0000003600000b200003.jsonl.sealed         complete, about to be finished

A name begins with the time when its file was opened, so that the files of a folder sort in the order in which their lines were accepted. The
LSN is that of the first line. No two files of a folder have the same time: a later one is at least a millisecond after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from common.message import Message, Property

OPEN_ROOM: Final = "_open"
"""The folder of all files that are not finished. Spark, Hive and Trino skip names that begin with `_`."""

NO_LSN: Final = "0" * 20

State = Literal["open", "sealed"]

_STEM = re.compile(r"(\d{8}T\d{9})Z-([0-9a-f]{20})\.(jsonl|jsonl\.gz|parquet)(?:\.(open|sealed))?", re.ASCII)
_TIME = "%Y%m%dT%H%M%S%f"
_lsn = re.compile(r"[0-9a-fA-F]{20}").fullmatch


@dataclass(frozen=True, slots=True, order=True)
class FileName:
    """A file's name without its state. `opened`: whole milliseconds, in UTC. `lsn`: of its first line. `ending`: `jsonl`, `jsonl.gz`, `parquet`."""

    opened: datetime
    lsn: str
    ending: str

    def __str__(self) -> str:
        return f"{_written(self.opened)}-{self.lsn}.{self.ending}"

    def staged(self, state: State) -> str:
        return f"{self}.{state}"

    @property
    def day(self) -> str:
        """The folder within the table's: `2026/11/23`."""
        return f"{self.opened:%Y/%m/%d}"


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that is not finished. `folder`: its table's. `size`: bytes; those of an open one are as they were seen."""

    folder: str
    name: FileName
    state: State
    size: int


def parsed(text: str) -> tuple[FileName, State | None] | None:
    """What a file's name says; None for a name that is not of this output. A finished file has no state."""
    found = _STEM.fullmatch(text)
    if found is None:
        return None
    try:
        opened = datetime.strptime(f"{found[1]}000", _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    state: State | None = "open" if found[4] == "open" else "sealed" if found[4] else None
    return FileName(opened, found[2], found[3]), state


def following(last: FileName | None, *, now: datetime, lsn: str, ending: str) -> FileName:
    """The name of the file after `last`, also when the clock was set back."""
    opened = now.replace(microsecond=now.microsecond // 1000 * 1000)
    if last is not None and opened <= last.opened:
        opened = last.opened + timedelta(milliseconds=1)
    return FileName(opened, lsn, ending)


def lsn_of(message: Message) -> str:
    """Zeros where the message does not say: another sender wrote it."""
    found = message.application_properties.get(Property.LSN)
    return found.lower() if isinstance(found, str) and _lsn(found) else NO_LSN


@lru_cache(maxsize=256)
def _written(opened: datetime) -> str:
    return f"{opened:%Y%m%dT%H%M%S}{opened.microsecond // 1000:03}Z"
