"""Sessions of the page, as values that are signed: nothing is kept of those that hold, only of those that were ended early.

A session names the token that it was begun with, so that it ends when that token does. The key is this process's own: a restart ends all.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LASTS_SECONDS = 12 * 3600.0
_MOST_ENDED = 10_000


@dataclass(slots=True)
class Sessions:
    """Callable from any thread."""

    now: Callable[[], float] = time.time
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _ended: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, token: bytes) -> str:
        """The cookie's value for a session under a token's fingerprint."""
        said = f"{int(self.now() + LASTS_SECONDS)}.{secrets.token_urlsafe(16)}"
        return f"{said}.{self._signed('session', said, token)}"

    def holds(self, cookie: str, tokens: Sequence[bytes]) -> bytes | None:
        """The fingerprint of its token, if it was begun here, is not over, and its token still is one."""
        said, _, signature = cookie.rpartition(".")
        ends, _, _ = said.partition(".")
        if not ends.isascii() or not ends.isdecimal() or len(ends) > 15 or not signature.isascii():
            return None
        genuine = None
        for token in tokens:
            if hmac.compare_digest(self._signed("session", said, token), signature):
                genuine = token
        with self._lock:
            return genuine if int(ends) > self.now() and said not in self._ended else None

    def end(self, cookie: str) -> None:
        """It does not hold any longer. Only for one that held: others would fill the memory."""
        with self._lock:
            self._ended[cookie.rpartition(".")[0]] = None
            while len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def csrf(self, subject: str) -> str:
        """What a page sends along with a change: only a page of this console can have read it. `subject`: the session, or the person."""
        return self._signed("csrf", subject, b"")

    def is_csrf(self, subject: str, given: str) -> bool:
        return hmac.compare_digest(self.csrf(subject).encode(), given.encode("utf-8", "replace"))

    def _signed(self, purpose: str, said: str, token: bytes) -> str:
        message = b"\0".join((purpose.encode(), said.encode("utf-8", "replace"), token))
        return base64.urlsafe_b64encode(hmac.digest(self.key, message, hashlib.sha256)).rstrip(b"=").decode()
