"""Which ingester had which table when, as their logs tell it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dstream.demo.processes import Service

_LOG_LINE = re.compile(r"(?P<at>\S+Z) \[\w+ *\] (?P<event>.+?) +\[ingester\](?P<rest>.*)")
_ENDS = {"lock lost", "lock given back, others have their share"}


@dataclass(frozen=True)
class Tenure:
    """An ingester's time with a table, as its log tells it; `end` None: to the end of the process."""

    table: str
    epoch: int
    begin: datetime
    end: datetime | None


def tenures(service: Service) -> list[Tenure]:
    """Which tables an ingester has had, from when to when, in the order of their begin."""
    found: list[Tenure] = []
    text = service.log.read_text() if service.log.exists() else ""
    for line in text.splitlines():
        if (told := _LOG_LINE.match(line)) is None or (named := re.search(r" table=(\S+)", told["rest"])) is None:
            continue
        at = datetime.fromisoformat(told["at"])
        if told["event"] == "lock taken" and (epoch := re.search(r"epoch=(\d+)", told["rest"])) is not None:
            found.append(Tenure(named[1], int(epoch[1]), at, None))
        elif told["event"] in _ENDS:
            number = max(n for n, tenure in enumerate(found) if tenure.table == named[1])
            found[number] = Tenure(found[number].table, found[number].epoch, found[number].begin, at)
    return found


def has(service: Service) -> set[str]:
    """The tables that an ingester has now."""
    return {tenure.table for tenure in tenures(service) if tenure.end is None}


def overlaps(one: Sequence[Tenure], two: Sequence[Tenure]) -> list[tuple[Tenure, Tenure]]:
    """Where a table had two owners at a time."""
    return [
        (a, b)
        for a in one
        for b in two
        if a.table == b.table and (a.end is None or b.begin < a.end) and (b.end is None or a.begin < b.end)
    ]
