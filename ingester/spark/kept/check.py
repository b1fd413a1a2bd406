"""`dstream check` of the archive of classes: whether there is one, and whether one can be made. Makes none, starts no Java."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from common.check import Finding, by_hand, ok, warn
from ingester.spark.kept import archive
from ingester.spark.kept.causes import Cause, told, unfit

_SUBJECT = "Spark's archive"
_SLOWER = "a start works without, and takes about twice as long"
_ELSEWHERE = by_hand("the folder is chosen, or freed, by hand")


def findings(environment: Mapping[str, str], *, direct: bool, kind: str | None) -> Iterator[Finding]:
    """One line. `direct`: Java is started without Spark's launcher. `kind`: which archive fits this Java and Spark; None: they take none."""
    hint = f"name another folder in {archive.VARIABLE}, or set it to {archive.OFF}"
    if (why := archive.refused(environment)) is not None:
        yield warn(_SUBJECT, f"{why}; {_SLOWER}", hint, fix=_ELSEWHERE)
        return
    folders = archive.folders(environment)
    if not direct or kind is None:
        yield ok(_SUBJECT, f"none: {told(Cause.LAUNCHER, Path())}")
        return
    if not folders:
        yield ok(_SUBJECT, f"turned off by {archive.VARIABLE}")
        return
    last = folders[-1]
    if (used := archive.found(kind, environment)) is not None:
        yield ok(_SUBJECT, f"a start uses the one in {used.parent}")
        return
    there = next((each for each in folders if _has_one(each)), None)
    before = "none yet" if there is None else f"that in {there} is of another Java or Spark"
    cause = Cause.UNSAFE if last.exists() and not archive.safe(last) else unfit(last)
    if cause is not None:
        yield warn(_SUBJECT, f"none, and none will be made: {told(cause, last)}; {_SLOWER}", hint, fix=_ELSEWHERE)
    else:
        yield ok(_SUBJECT, f"{before}; an ingester makes one in {last} after 30 seconds")


def _has_one(folder: Path) -> bool:
    try:
        return archive.safe(folder) and any(folder.glob(f"*/{archive.CLASSES}"))
    except OSError:
        return False
