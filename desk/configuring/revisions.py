"""The changes that were made through the console, so that the last one can be taken back. Keeps the lines that each replaced, and no secret.

Refuses to keep a line with the value of a secret: such a change can be taken back as long as this process runs, and not later.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from common.errors import PermanentError
from desk.configuring.places.port import Content, revision_of
from desk.desk import Conflict, NotFound
from desk.documents.configuring import Revision

KEPT = 20
_LOCK_SECONDS = 5.0
_GLANCE = 0.05

_Piece = tuple[int, int, str]
"""The lines from the first to before the second number of the new text, and the old text in their place."""


@dataclass(frozen=True, slots=True)
class Change:
    """`back`: from the text after it to the text `before` it. None: it is not known any more, because it held a secret."""

    shown: Revision
    before: str
    back: tuple[_Piece, ...] | None


class Revisions:
    """Of one place. `folder`: of the console's state. Not for several threads."""

    def __init__(self, folder: Path, place: str) -> None:
        self._file = folder / f"configuration-{hashlib.sha256(place.encode()).hexdigest()[:12]}.json"
        self._held: dict[str, tuple[_Piece, ...]] = {}

    def all(self) -> list[Revision]:
        """The newest first. An unreadable file is none: the configuration does not depend on it."""
        return [each.shown for each in reversed(self._changes())]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Of all consoles with this folder. Raises Conflict after some seconds, PermanentError if the folder cannot be written."""
        path = self._file.with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PermanentError(f"locking {path}: {error.strerror or type(error).__name__}") from error
        try:
            self._locked(handle, path)
            yield
        finally:
            os.close(handle)

    def _locked(self, handle: int, path: Path) -> None:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Conflict(
                        "changing the configuration: another console's change is under way", hint="try again"
                    ) from None
                time.sleep(_GLANCE)
            except OSError as error:
                raise PermanentError(f"locking {path}: {error.strerror or type(error).__name__}") from error

    def take_out(self, shown: Revision) -> None:
        """A last change that was refused where it was to be written."""
        changes = self._changes()
        if changes and changes[-1].shown == shown:
            self._held.pop(shown.revision, None)
            self._write(changes[:-1])

    def forget_undone(self, present: Content) -> None:
        """Leave out a last change that never came into the file, because its write failed or this process was killed."""
        changes = self._changes()
        if len(came := _came(changes, present)) != len(changes):
            self._write(came)

    def before_last(self, present: Content) -> tuple[str, Revision]:
        """The text before the last change, and what that was. Raises NotFound or Conflict."""
        changes = _came(self._changes(), present)
        if not changes:
            raise NotFound("taking the last change back: none was made through this console")
        last = changes[-1]
        if last.shown.revision != present.revision:
            raise Conflict(
                "taking the last change back: the configuration was changed in another way since",
                hint="look at it, and change it as it should be",
            )
        back = self._held.get(last.shown.revision, last.back)
        if back is None:
            raise Conflict(
                "taking the last change back: it removed a value that is secret, which is not kept",
                hint="write it again by hand, from an environment variable",
            )
        text = taken_back(present.text, back)
        if revision_of(text.encode()) != last.before:
            raise Conflict("taking the last change back: what is kept of it does not fit the configuration")
        return text, last.shown

    def add(self, shown: Revision, old: str, new: str, *, secrets: Sequence[str]) -> None:
        """`secrets`: the lines of both texts that hold the value of one. Raises PermanentError if it cannot be kept."""
        back = difference(old, new)
        kept = not any(line and line in text for _, _, text in back for line in secrets)
        self._held = {shown.revision: back} if not kept else {}
        change = Change(shown, revision_of(old.encode()), back if kept else None)
        self._write([*self._changes(), change][-KEPT:])

    def _changes(self) -> list[Change]:
        try:
            found = json.loads(self._file.read_bytes())
            return [
                Change(
                    Revision(**each["shown"]),
                    each["before"],
                    None if each["back"] is None else tuple((int(a), int(b), str(text)) for a, b, text in each["back"]),
                )
                for each in found
            ]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def _write(self, changes: Sequence[Change]) -> None:
        data: list[dict[str, Any]] = [
            {"shown": each.shown.model_dump(), "before": each.before, "back": each.back} for each in changes
        ]
        beside = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                beside.unlink()
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file, ensure_ascii=False, indent=1)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._file)
        except OSError as error:
            text = f"keeping the change in {self._file}: {error.strerror or type(error).__name__}"
            raise PermanentError(text) from error


def _came(changes: list[Change], present: Content) -> list[Change]:
    """Without a last change that never came into the file."""
    if changes and changes[-1].before == present.revision != changes[-1].shown.revision:
        return changes[:-1]
    return changes


def difference(old: str, new: str) -> tuple[_Piece, ...]:
    """From `new` to `old`, by lines."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    least = min(len(before), len(after))
    first = next((number for number in range(least) if before[number] != after[number]), least)
    same = next((number for number in range(least - first) if before[-1 - number] != after[-1 - number]), least - first)
    before, after = before[first : len(before) - same], after[first : len(after) - same]
    steps = SequenceMatcher(None, after, before, autojunk=False).get_opcodes()
    return tuple((a + first, b + first, "".join(before[c:d])) for kind, a, b, c, d in steps if kind != "equal")


def taken_back(new: str, back: Sequence[_Piece]) -> str:
    """The old text, from the new one and their `difference`."""
    lines = new.splitlines(keepends=True)
    for start, end, text in sorted(back, reverse=True):
        lines[start:end] = [text]
    return "".join(lines)
