"""Why a server refuses a login, in its own words. The driver only keeps the number of the worst refusal in its process
so far.

So this module sends the login once more, at most once a minute, and reads the errors in the answer. It sends the
password as the driver does: encrypted if that was agreed, otherwise scrambled as LOGIN7 requires.
https://learn.microsoft.com/openspecs/windows_protocols/ms-tds (2.2.6.4 LOGIN7, 2.2.7.10 ERROR, 2.2.7.9 ENVCHANGE)
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from common.sqladdress import SqlAddress
from ingester.sqlserver.login.handshake import LOGIN7, Line
from ingester.sqlserver.login.login7 import login7

_TDS_7_4 = 0x74000004
_ERROR, _INFO, _ENVCHANGE, _LOGINACK = 0xAA, 0xAB, 0xE3, 0xAD
_ROUTING = 20
_FEATURES, _FEDAUTH = 0xAE, 0x02
_COUNTED = frozenset({_ERROR, _INFO, _ENVCHANGE, _LOGINACK, _FEATURES})
"""Tokens with a length of two bytes, and that of the features. Other tokens in the answer to a login come after
these."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error: its number, state, severity and text."""

    number: int
    state: int
    severity: int
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a login. `refusals`: empty if it was accepted. `route`: host and port that a gateway redirects its
    clients to.

    `features`: the token that acknowledges them, b"" without one. `federated`: a login by token is among them.
    """

    refusals: Sequence[Refusal]
    route: tuple[str, int] | None
    features: bytes = b""
    federated: bool = False


_LOGIN_FAILED = 18456
_ASKED_AGAIN = 60.0
"""Seconds."""

_OF_DATABASE = frozenset({916, 4060})
_AT_ONCE, _FIRST, _LONGEST = 2, 5.0, 300.0
"""Refusals that are followed by no pause, and seconds of the first and the longest one."""


class Words:
    """The latest answers to logins whose user or password was refused. Thread-safe.

    Each such login counts towards the account's lockout, and so does the one that asks for the words: so at most once a
    minute.
    https://learn.microsoft.com/sql/relational-databases/security/password-policy
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, tuple[float, Sequence[Refusal]]] = {}
        self._held: dict[Hashable, tuple[int, float, Sequence[Refusal]]] = {}
        """How often a login was refused in a row, until when it is not tried again, and with which words it was refused."""
        self._guard = threading.Lock()

    def of(self, login: Hashable, ask: Callable[[], Sequence[Refusal]]) -> Sequence[Refusal]:
        """The result of `ask`, or that of less than a minute ago for the same `login`. Raises the errors of `ask`."""
        with self._guard:
            known = self._known.get(login)
        if known is not None and self._clock() - known[0] < _ASKED_AGAIN:
            return known[1]
        said = ask()
        if any(refusal.number == _LOGIN_FAILED for refusal in said):
            with self._guard:
                self._known[login] = self._clock(), said
        return said

    def refused(self, login: Hashable, said: Sequence[Refusal]) -> None:
        """The server has answered a login with `said`. From the third refusal in a row on, all parts of the process wait, twice as long each
        time. A database that cannot be opened is no such refusal: it counts towards no lockout."""
        numbers = {refusal.number for refusal in said}
        if _LOGIN_FAILED not in numbers or numbers & _OF_DATABASE:
            return
        with self._guard:
            times = self._held.get(login, (0, 0.0, ()))[0] + 1
            pause = 0.0 if times <= _AT_ONCE else min(_LONGEST, _FIRST * 2.0 ** min(times - _AT_ONCE - 1, 32))
            self._held[login] = times, self._clock() + pause, said

    def held(self, login: Hashable) -> Sequence[Refusal]:
        """What the server said last of a login that must not be tried now; empty for one that may."""
        with self._guard:
            _, until, said = self._held.get(login, (0, 0.0, ()))
            return said if self._clock() < until else ()

    def forget(self, login: Hashable) -> None:
        """The login was accepted."""
        with self._guard:
            self._known.pop(login, None)
            self._held.pop(login, None)


def ask(line: Line, address: SqlAddress, application: str, *, login_only: bool) -> Answer:
    """The present answer to this login. `line`: after `greet`. `login_only`: encryption ends with the login."""
    line.send(LOGIN7, _login(address, application))
    if login_only:
        line.clear()
    return read_answer(line.receive())


def read_answer(received: bytes) -> Answer:
    tokens = list(_tokens(received))
    features = next((body for token, body in tokens if token == _FEATURES), b"")
    routes = [body for token, body in tokens if token == _ENVCHANGE and body[:1] == bytes([_ROUTING])]
    return Answer(
        [_error(body) for token, body in tokens if token == _ERROR],
        _route(routes[-1]) if routes else None,
        features,
        _FEDAUTH in _feature_ids(features),
    )


def _login(address: SqlAddress, application: str) -> bytes:
    texts = (
        "dstream",
        address.user,
        address.password.get_secret_value(),
        application,
        address.host,
        "",
        "dstream",
        "",
        address.database,
    )
    return login7(texts, _TDS_7_4, 4096).written


def _tokens(answer: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 3 <= len(answer) and answer[at] in _COUNTED:
        if answer[at] == _FEATURES:
            end = _end_of_features(answer, at)
            yield _FEATURES, answer[at:end]
            at = end
            continue
        token, length = struct.unpack_from("<BH", answer, at)
        yield token, answer[at + 3 : at + 3 + length]
        at += 3 + length


def _end_of_features(answer: bytes, at: int) -> int:
    """FEATUREEXTACK has no length: features, each with its own, until 0xFF."""
    at += 1
    while at + 5 <= len(answer) and answer[at] != 0xFF:
        at += 5 + int.from_bytes(answer[at + 1 : at + 5], "little")
    return at + 1


def _feature_ids(features: bytes) -> set[int]:
    found, at = set(), 1
    while at + 5 <= len(features):
        found.add(features[at])
        at += 5 + int.from_bytes(features[at + 1 : at + 5], "little")
    return found


def _error(body: bytes) -> Refusal:
    number, state, severity, length = struct.unpack_from("<iBBH", body)
    return Refusal(number, state, severity, body[8 : 8 + 2 * length].decode("utf-16-le", "replace").replace("\n", " "))


def _route(body: bytes) -> tuple[str, int]:
    port, length = struct.unpack_from("<HH", body, 4)
    return body[8 : 8 + 2 * length].decode("utf-16-le", "replace"), port
