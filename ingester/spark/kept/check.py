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


def findings(environment: Mapping[str, str], *, direct: bool) -> Iterator[Finding]:
    """One line. `direct`: Java is started without Spark's launcher."""
    hint = f"name another folder in {archive.VARIABLE}, or set it to {archive.OFF}"
    if (why := archive.refused(environment)) is not None:
        yield warn(_SUBJECT, f"{why}; {_SLOWER}", hint, fix=_ELSEWHERE)
        return
    folders = archive.folders(environment)
    if not direct:
        yield ok(_SUBJECT, f"none: {told(Cause.LAUNCHER, Path())}")
        return
    if not folders:
        yield ok(_SUBJECT, f"turned off by {archive.VARIABLE}")
        return
    last = folders[-1]
    if (there := next((each for each in folders if _has_one(each)), None)) is not None:
        yield ok(_SUBJECT, f"there is one in {there}; a start uses it if it is of the same Java and Spark")
        return
    cause = Cause.UNSAFE if last.exists() and not archive.safe(last) else unfit(last)
    if cause is not None:
        yield warn(_SUBJECT, f"none, and none will be made: {told(cause, last)}; {_SLOWER}", hint, fix=_ELSEWHERE)
    else:
        yield ok(_SUBJECT, f"none yet; an ingester makes one in {last} after 30 seconds")


def _has_one(folder: Path) -> bool:
    try:
        return archive.safe(folder) and any(folder.glob(f"*/{archive.CLASSES}"))
    except OSError:
        return False
