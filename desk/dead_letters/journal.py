"""What a replay was about to send and has sent, on the disk before and after each batch. After a kill it tells which dead letters may have been sent.

One file an entity, beside the audit log. It holds sequence numbers and message ids, never a value of a row, and stays small: batches that are
finished are dropped from it. Whoever has it open has it alone on this machine.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common.errors import PermanentError
from desk.desk import Conflict

_GROWN: Final = 8 * 1024 * 1024
ROOM: Final = 4 * _GROWN
"""Bytes that must be free before anything is sent: while the file is written anew it is there twice, and the audit log grows beside it."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_KEPT_SECONDS: Final = 30 * 86_400.0
"""Notes about dead letters that never came again are dropped after so long."""


@dataclass(frozen=True, slots=True)
class Note:
    """Of a dead letter in an unfinished batch. `at`: Unix time of its first intent. `sent`: whether the bus is known to have accepted its copy."""

    id: str
    at: float
    sent: bool


class Journal:
    """Of one entity; `open` it in a `with` block."""

    def __init__(self, folder: Path, entity: str) -> None:
        name = hashlib.sha256(entity.encode()).hexdigest()[:20]
        self.path = folder / f"{name}.jsonl"
        host, _, shelf = entity.partition(" ")
        self._entity = f"{shelf} at {host}" if shelf else entity
        self._notes: dict[int, Note] = {}
        self._doubtful: set[int] = set()
        self._file: int | None = None
        self._torn = False
        self._lock: int | None = None

    def __enter__(self) -> Journal:
        """Raises PermanentError where it cannot be written, and Conflict while another process has it."""
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._notes, self._doubtful = _read(self.path)
        except BlockingIOError:
            raise Conflict(
                f"{self._entity}: another process of this machine replays them now",
                hint="wait for its end, or stop it where it was begun",
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise PermanentError(
                f"reading the journal of replays {self.path}: it was not written by DStream",
                hint="move the file elsewhere; without it a dead letter that was sent already may be sent once more",
            ) from error
        self._write_anew()

    def __exit__(self, *_: object) -> None:
        """Lets go of the lock, whatever the disk says: nothing is left to write, and what was wrong has been said."""
        file, self._file = self._file, None
        lock, self._lock = self._lock, None
        for descriptor in (file, lock):
            if descriptor is not None:
                _close(descriptor)

    @property
    def notes(self) -> Mapping[int, Note]:
        """By sequence number: dead letters of batches that did not come to their end."""
        return self._notes

    @property
    def doubtful(self) -> Set[int]:
        """Sequence numbers of dead letters that may have been sent twice, and that no run has reported yet: each that did was killed."""
        return self._doubtful

    def doubt(self, sequences: Iterable[int]) -> None:
        """They are sent next, and were perhaps sent before. Kept until `reported`."""
        if new := [sequence for sequence in sequences if sequence not in self._doubtful]:
            self._append({"doubtful": new})
            self._doubtful.update(new)

    def reported(self) -> None:
        """A person has been shown those that are doubtful."""
        if self._doubtful:
            self._append({"reported": True})
            self._doubtful.clear()

    def has_room(self) -> None:
        """Raises PermanentError where the disk is about to be full."""
        try:
            found = os.statvfs(self.path.parent)
        except OSError as error:
            raise self._unwritable(error) from error
        if (free := found.f_bavail * found.f_frsize) < ROOM:
            raise PermanentError(
                f"replaying {self._entity}: {free / 2**20:.0f} MB are free for the journal in {self.path.parent}, and it needs {ROOM // 2**20}",
                hint="free space there, or name another place with --audit-file",
            )

    def intend(self, letters: Iterable[tuple[int, str]], at: float) -> None:
        """They are sent next. An earlier time of the same dead letter stays."""
        new = {sequence: Note(id, at, False) for sequence, id in letters if sequence not in self._notes}
        if new:
            self._append({"at": at, "next": [[sequence, note.id] for sequence, note in new.items()]})
            self._notes |= new

    def sent(self, sequences: Sequence[int]) -> None:
        """The bus has accepted their copies."""
        if sequences:
            self._append({"sent": list(sequences)})
            for sequence in sequences:
                note = self._notes[sequence]
                self._notes[sequence] = Note(note.id, note.at, True)

    def done(self, sequences: Sequence[int]) -> None:
        """They are dead letters no more, or were surely not sent."""
        if sequences:
            self._append({"done": list(sequences)}, sync=False)
            for sequence in sequences:
                self._notes.pop(sequence, None)
            if os.lseek(self._opened, 0, os.SEEK_CUR) > _GROWN:
                self._write_anew()

    @property
    def _opened(self) -> int:
        if self._file is None:
            raise RuntimeError("the journal is not open")
        return self._file

    def _append(self, line: Mapping[str, object], *, sync: bool = True) -> None:
        """Nothing waits in memory for a later write. A line that was cut short is ended before the next one."""
        octets = _line(line)
        try:
            _write(self._opened, b"\n" + octets if self._torn else octets)
            self._torn = False
            if sync:
                os.fdatasync(self._opened)
        except OSError as error:
            self._torn = True
            raise self._unwritable(error) from error

    def _write_anew(self) -> None:
        """The notes alone, in a new file that takes the old one's place at once. Where that fails, the old one stays and goes on."""
        try:
            self._replace()
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                _close(folder)
        except OSError as error:
            raise self._unwritable(error) from error

    def _replace(self) -> None:
        new = self.path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, b"".join(self._lines()))
            os.fsync(descriptor)
            new.rename(self.path)
        except BaseException:
            _close(descriptor)
            with suppress(OSError):
                new.unlink()
            raise
        old, self._file, self._torn = self._file, descriptor, False
        if old is not None:
            _close(old)

    def _lines(self) -> Iterator[bytes]:
        for sequence, note in self._notes.items():
            yield _line({"at": note.at, "next": [[sequence, note.id]]})
            if note.sent:
                yield _line({"sent": [sequence]})
        if self._doubtful:
            yield _line({"doubtful": sorted(self._doubtful)})

    def _unwritable(self, error: OSError) -> PermanentError:
        hint = "it lies beside the audit log: name a place for that which this user may write, by --audit-file or DSTREAM_AUDIT_FILE"
        if error.errno in _FULL:
            hint = "free space there and replay again, or name another place with --audit-file or DSTREAM_AUDIT_FILE"
        return PermanentError(f"writing the journal of replays {self.path}: {error.strerror or error}", hint=hint)


def _line(said: Mapping[str, object]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def _write(descriptor: int, octets: bytes) -> None:
    """All of them: the disk may take a part first."""
    rest = memoryview(octets)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


def notes_of(folder: Path, entity: str) -> Mapping[int, Note]:
    """As `Journal.notes`, for someone who only looks."""
    return unfinished(Journal(folder, entity).path)


def unfinished(path: Path) -> Mapping[int, Note]:
    """The notes of a journal's file."""
    return _read(path)[0]


def forget_old(notes: Mapping[int, Note], now: float) -> list[int]:
    """Those that are too old to be of use."""
    return [sequence for sequence, note in notes.items() if now - note.at > _KEPT_SECONDS]


def _read(path: Path) -> tuple[dict[int, Note], set[int]]:
    """Notes, and what is doubtful."""
    notes: dict[int, Note] = {}
    doubtful: set[int] = set()
    for line in _lines(path):
        for sequence, id in line.get("next", ()):
            notes[sequence] = Note(id, float(line["at"]), False)
        for sequence in line.get("sent", ()):
            if (note := notes.get(sequence)) is not None:
                notes[sequence] = Note(note.id, note.at, True)
        for sequence in line.get("done", ()):
            notes.pop(sequence, None)
        doubtful.update(line.get("doubtful", ()))
        if line.get("reported"):
            doubtful.clear()
    return notes, doubtful


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole ones: the last may be cut short."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for octets in file:
            try:
                line = json.loads(octets)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line
