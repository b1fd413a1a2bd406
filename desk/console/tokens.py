"""The tokens of a file and whose they are, read again when it has changed; one that is emptied or removed lets nobody in.

Compares in constant time; no token is in an error or a log.
"""

from __future__ import annotations

import hashlib
import hmac
import re
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
MOST = 50
UNNAMED = "token"
"""Who has a token that is given without a name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_MAKE = "openssl rand -hex 32 makes a token"
_LONGEST_NAME = 31
"""Characters of a name that is not an e-mail address; keys are longer."""
_FEWEST = 6
"""Different characters of a token."""
_HEX = re.compile(r"(?=.*[0-9])[0-9A-Fa-f]{16,}")
_KEY = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9+_-]{16,}")
_LARGEST = 64 * 1024
_LOOK_SECONDS = 1.0


def tokens_of(text: str) -> dict[str, str]:
    """Of each token whose it is: a line has `name:token`, or a token. Raises ConfigurationError, which shows neither: they may be swapped."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise ConfigurationError(["the token file is empty"], hint=_MAKE)
    if len(lines) > MOST:
        raise ConfigurationError([f"the token file has {len(lines)} lines; {MOST} are allowed"])
    found, places = dict[str, str](), dict[str, int]()
    for number, line in lines:
        name, token = _parted(line, number)
        for each, what in ((token, "token"), (name and f"{name.casefold()}:", "name")):
            if each and places.setdefault(each, number) != number:
                raise _wrong(number, f"has the {what} of line {places[each]}", hint="give each line its own")
        found[token] = name or UNNAMED
    return found


def _parted(line: str, number: int) -> tuple[str, str]:
    """The name, which may be empty, and the token."""
    name, colon, token = (each.strip() for each in line.rpartition(":"))
    if colon and (not _NAME.fullmatch(name) or name.casefold() == UNNAMED):
        raise _wrong(
            number,
            "has no name before its colon that can be one",
            hint=f"name:token, the name of 1 to 64 letters, digits and . _ @ + -, and not {UNNAMED!r}; a token has no colon",
        )
    if not token:
        raise _wrong(number, "has a name and no token", hint=_MAKE)
    if len(token) < SHORTEST:
        raise _wrong(number, f"has a token of less than {SHORTEST} characters", hint=_MAKE)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise _wrong(number, "has a token with characters that no header can have", hint=_MAKE)
    if name and _swapped(name, token):
        raise _wrong(
            number,
            "looks swapped, with the token before the colon",
            hint="name:token; a name has at most 31 characters unless it has an @, is shorter than its token and looks like no key;"
            f" its token has no @ and {_FEWEST} different characters or more; {_MAKE}",
        )
    return name, token


def _swapped(name: str, token: str) -> bool:
    """Whether what should be secret may be what is not: then a word that people know would let in, and the audit log would show the secret."""
    if "@" in token or len(set(token)) < _FEWEST:
        return True
    if "@" in name:
        return False
    return len(name) > _LONGEST_NAME or len(name) >= len(token) or any(each.fullmatch(name) for each in (_HEX, _KEY))


def _wrong(number: int, what: str, *, hint: str) -> ConfigurationError:
    return ConfigurationError([f"the token file: line {number} {what}"], hint=hint)


def fingerprint(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


@dataclass(slots=True)
class TokenFile:
    """Callable from any thread. While the file is there and cannot be read, what it said last holds; if it is gone or empty, nothing does."""

    path: Path
    now: Callable[[], float] = time.monotonic
    _known: dict[bytes, str] = field(default_factory=dict, repr=False)
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

    def person(self, token: str) -> str | None:
        """Whose the token is; None if it is none of the file's."""
        return self.named(self.matching(token))

    def named(self, known: bytes | None) -> str | None:
        """Whose the token with this fingerprint is; None if there is none."""
        return None if known is None else self._known.get(known)

    def known(self) -> tuple[bytes, ...]:
        """Fingerprints of the tokens that hold now."""
        with self._lock:
            if self.now() - self._looked >= _LOOK_SECONDS:
                self._look()
            return tuple(self._known)

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
                    hint="write it again, with one token or name:token a line",
                )
            self._known, self._seen = {}, None
        except (OSError, ConfigurationError) as error:
            if not self._broken:
                why = error.strerror if isinstance(error, OSError) else str(error)
                log.warning(
                    "token file not read; the tokens that it had hold on",
                    path=str(self.path),
                    error=why,
                    hint="make the file readable, with one token or name:token a line",
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
        self._known = {fingerprint(token): name for token, name in tokens_of(self._text()).items()}
        self._seen, self._looked = identity, self.now()

    def _text(self) -> str:
        with self.path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
