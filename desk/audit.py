"""The audit log as a file: a line of JSON for each change that a person makes, on the disk before the change is made.

Several processes of one machine may write to it. It never removes a line: a file that has grown gets a number at its end and stays. It refuses to
go on where a line cannot be kept. Lines hold ids and numbers, never a value of a row; the caller sees to that.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from common.errors import ConfigurationError, PermanentError
from desk.desk import Actor
from desk.documents.audit import AuditLine
from desk.documents.shape import Page
from desk.times import written

VARIABLE: Final = "DSTREAM_AUDIT_FILE"
ROTATE_BYTES: Final = 64 * 1024 * 1024
PAGE_BYTES: Final = 1024 * 1024
"""Of a page's lines together; a longer line is a page of its own."""
LONGEST_BYTES: Final = 4 * PAGE_BYTES
"""A longer line is none of this module's, and is passed over."""
_CHUNK: Final = 64 * 1024
_CURSOR: Final = re.compile(r"(\d{1,12}):(\d{1,15})")
_HINT: Final = f"name a file on a local disk that this user may write, by --audit-file or {VARIABLE}; without an audit log nothing is changed"

Outcome = Literal["begun", "done", "refused", "failed"]


def default_place(environment: Mapping[str, str] = os.environ) -> Path:
    """DSTREAM_AUDIT_FILE, or the user's own place for state. Raises ConfigurationError where there is neither."""
    if given := environment.get(VARIABLE):
        return Path(given).expanduser()
    if state := environment.get("XDG_STATE_HOME"):
        return Path(state) / "dstream" / "audit.jsonl"
    try:
        return Path.home() / ".local" / "state" / "dstream" / "audit.jsonl"
    except RuntimeError:
        raise ConfigurationError(["there is no home directory for the audit log"], hint=_HINT) from None


def local_user() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def line_of(
    at: datetime,
    actor: Actor,
    action: str,
    target: str,
    outcome: Outcome,
    *,
    reason: str | None,
    details: dict[str, Any],
) -> AuditLine:
    return AuditLine(
        at=written(at, "milliseconds"),
        who=actor.who,
        through=actor.through,
        address=actor.address,
        action=action,
        target=target,
        outcome=outcome,
        details=details,
        reason=reason,
        request=actor.request,
    )


class AuditFile:
    """A `desk.desk.Audit`."""

    def __init__(
        self,
        path: Path,
        *,
        rotate_bytes: int = ROTATE_BYTES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.path = path
        self._rotate_bytes = rotate_bytes
        self._now = now
        self._guard = threading.Lock()

    def __repr__(self) -> str:
        return f"<AuditFile {self.path}>"

    def prepare(self) -> None:
        """Find out at a start whether lines can be kept. Raises PermanentError."""
        with self._kept(), self._locked():
            os.close(self._opened())

    def write(
        self,
        actor: Actor,
        action: str,
        target: str,
        outcome: Outcome,
        *,
        reason: str | None = None,
        **details: Any,
    ) -> None:
        line = line_of(self._now(), actor, action, target, outcome, reason=reason, details=details)
        octets = line.model_dump_json(exclude_none=True).encode() + b"\n"
        with self._kept(), self._locked():
            self._rotate()
            descriptor = self._opened()
            try:
                _append(descriptor, octets)
            finally:
                os.close(descriptor)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        with self._guard:
            try:
                yield
            except OSError as error:
                raise PermanentError(
                    f"writing the audit log {self.path}: {error.strerror or error}", hint=_HINT
                ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all processes of this machine."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if new:
            _sync_folder(self.path.parent)
        return descriptor

    def _rotate(self) -> None:
        try:
            grown = self.path.stat().st_size >= self._rotate_bytes
        except FileNotFoundError:
            return
        if grown:
            self.path.rename(self._numbered(self._generation()))
            _sync_folder(self.path.parent)

    def _numbered(self, generation: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{generation:05}")

    def _generation(self) -> int:
        """The number that the file has now, and will keep."""
        prefix = f"{self.path.name}."
        try:
            names = [each.name for each in self.path.parent.iterdir()]
        except FileNotFoundError:
            return 1
        tails = [name[len(prefix) :] for name in names if name.startswith(prefix)]
        return max((int(tail) for tail in tails if tail.isdigit()), default=0) + 1

    def lines(self, *, after: str | None, most: int) -> Page[AuditLine]:
        """The newest first, as many as were asked for, or fewer where they are long. A line that is not one (cut short by a crash) is passed over."""
        begin = None if after is None else _CURSOR.fullmatch(after)
        if after is not None and begin is None:
            raise ConfigurationError([f"{after[:40]!r} is not a place in the audit log"])
        found, size = list[AuditLine](), 0
        with self._guard:
            current = self._generation()
            generation = current if begin is None else min(int(begin[1]), current)
            until = None if begin is None else int(begin[2])
            while generation > 0:
                path = self.path if generation == current else self._numbered(generation)
                for place, octets in _backwards(path, until):
                    if (line := _read(octets)) is None:
                        continue
                    size += len(octets)
                    if len(found) == most or (found and size > PAGE_BYTES):
                        return Page(items=found, next=f"{generation}:{place + len(octets) + 1}")
                    found.append(line)
                generation, until = generation - 1, None
        return Page(items=found)


def _append(descriptor: int, octets: bytes) -> None:
    """All of it or nothing, and on the disk."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        octets = b"\n" + octets  # a crash has cut the last line short
    try:
        written = os.write(descriptor, octets)
        if written < len(octets):
            raise OSError(28, os.strerror(28))
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(octets: bytes) -> AuditLine | None:
    try:
        return AuditLine.model_validate(json.loads(octets))
    except (ValueError, ValidationError, RecursionError):
        return None


def _backwards(path: Path, until: int | None) -> Iterator[tuple[int, bytes]]:
    """Where each line begins, and the line, the last one first; of the octets before `until`, without lines that are too long."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at = os.fstat(file.fileno()).st_size
        at = at if until is None else min(until, at)
        rest, too_long = b"", False
        while at > 0:
            step = min(_CHUNK, at)
            at -= step
            file.seek(at)
            rest = file.read(step) + rest
            head, *whole = rest.split(b"\n")
            place = at + len(rest)
            for line in reversed(whole):
                place -= len(line)
                if line and not too_long:
                    yield place, line
                place, too_long = place - 1, False
            rest = head
            if len(rest) > LONGEST_BYTES:
                rest, too_long = b"", True
        if rest and not too_long:
            yield 0, rest
