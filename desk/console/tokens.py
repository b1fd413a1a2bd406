"""The tokens of a file, read again when it has changed; one that is emptied or removed lets nobody in.

Compares in constant time; no token is in an error or a log.
"""

from __future__ import annotations

import hashlib
import hmac
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from common.errors import ConfigurationError

log = structlog.get_logger(__name__)

SHORTEST = 16
MOST = 10
_LARGEST = 64 * 1024
_LOOK_SECONDS = 1.0


def tokens_of(text: str) -> tuple[str, ...]:
    """One a line, so that an old and a new one hold side by side while they are exchanged. Raises ConfigurationError."""
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not found:
        raise ConfigurationError(["the token file is empty"], hint="openssl rand -hex 32 > FILE")
    if len(found) > MOST:
        raise ConfigurationError([f"the token file has {len(found)} lines; {MOST} are allowed"])
    for number, token in enumerate(found, 1):
        if len(token) < SHORTEST:
            raise ConfigurationError(
                [f"the token file: the token number {number} has less than {SHORTEST} characters"],
                hint="openssl rand -hex 32 > FILE",
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigurationError([f"the token file: the token number {number} has characters no header can have"])
    return found


def fingerprint(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


@dataclass(slots=True)
class TokenFile:
    """Callable from any thread. While the file is there and cannot be read, what it said last holds; if it is gone or empty, nothing does."""

    path: Path
    now: Callable[[], float] = time.monotonic
    _known: tuple[bytes, ...] = ()
    _seen: tuple[int, int, int] | None = None
    _looked: float = float("-inf")
    _broken: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> None:
        """At the start. Raises ConfigurationError."""
        with self._lock:
            try:
                self._read()
                if self.path.stat().st_mode & stat.S_IROTH:
                    log.warning(
                        "anybody on this machine may read the token file", path=str(self.path), hint="chmod 600"
                    )
            except OSError as error:
                raise ConfigurationError([f"reading the token file {self.path}: {error.strerror}"]) from error

    def matching(self, token: str) -> bytes | None:
        """The fingerprint of the file's token that is `token`. Takes as long whichever it is, and if it is none."""
        given, found = fingerprint(token), None
        for known in self.known():
            if hmac.compare_digest(known, given):
                found = known
        return found

    def known(self) -> tuple[bytes, ...]:
        """Fingerprints of the tokens that hold now."""
        with self._lock:
            if self.now() - self._looked >= _LOOK_SECONDS:
                self._look()
            return self._known

    def _look(self) -> None:
        self._looked = self.now()
        try:
            if self._identity() == self._seen:
                return
            if not self._text().strip():
                raise FileNotFoundError(2, "it is empty")
            self._read()
        except FileNotFoundError as error:
            if self._known or self._seen is not None:
                log.warning(
                    "token file gone or empty; nobody is let in",
                    path=str(self.path),
                    error=error.strerror,
                    hint="write it again, with one token a line",
                )
            self._known, self._seen = (), None
        except (OSError, ConfigurationError) as error:
            if not self._broken:
                why = error.strerror if isinstance(error, OSError) else str(error)
                log.warning(
                    "token file not read; the tokens that it had hold on",
                    path=str(self.path),
                    error=why,
                    hint="make the file readable, with one token a line",
                )
            self._broken = True
        else:
            log.info("tokens read again", path=str(self.path), tokens=len(self._known))
            self._broken = False

    def _identity(self) -> tuple[int, int, int]:
        found = self.path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> None:
        identity = self._identity()
        self._known = tuple(map(fingerprint, tokens_of(self._text())))
        self._seen, self._looked = identity, self.now()

    def _text(self) -> str:
        with self.path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
