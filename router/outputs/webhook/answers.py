"""What a receiver's answer means. Pure; knows no client.

Nothing of an answer's body is shown: it may quote the change that was sent.
https://www.rfc-editor.org/rfc/rfc9110#name-status-codes
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from http import HTTPStatus
from urllib.parse import urlsplit

from common.errors import EntityMissing, EntityUnavailable

MOST_WAIT = 3600.0
"""Seconds: no longer is a Retry-After honoured at once. Whoever needs more says so again."""

_TRANSIENT = {408, 409, 421, 423, 425}
"""Beside 5xx. 409: a request with the same Idempotency-Key is still under way there."""

_RIGHTS = "check signing_secret, bearer_token, username and password, headers, query and client_certificate against what the receiver expects"
_ADDRESS = "check url, and that the receiver serves it"
_OTHER = "check url and method, and what the receiver logs; a status that says that the change itself will never be taken belongs in refused_statuses"


class Meaning(Enum):
    """Of a status. UNAVAILABLE and MISSING: a person must act. BUSY: not taken, and to be asked later. AGAIN: it may have been taken or not."""

    ACCEPTED = auto()
    REFUSED = auto()
    BUSY = auto()
    AGAIN = auto()
    MISSING = auto()
    UNAVAILABLE = auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """`location`, `retry_after`: the headers."""

    status: int
    retry_after: str | None = None
    location: str | None = None


def meaning(status: int, *, refused: Collection[int], retry_after: str | None = None) -> Meaning:
    if 200 <= status <= 299:
        return Meaning.ACCEPTED
    if status in refused:
        return Meaning.REFUSED
    if status == 429 or (status == 503 and retry_after is not None):
        return Meaning.BUSY
    if status in _TRANSIENT or status >= 500:
        return Meaning.AGAIN
    return Meaning.MISSING if status in (404, 410) else Meaning.UNAVAILABLE


def unavailable(where: str, status: int, location: str | None) -> EntityUnavailable:
    """The error of an answer that means MISSING or UNAVAILABLE. `location`: of a redirect."""
    text = f"sending to {where}: answered {words(status)}"
    if 300 <= status <= 399:
        to = f" to {_host(location)}" if location else ""
        return EntityUnavailable(
            f"{text}, a redirect{to}, and redirects are not followed",
            hint="write the address that the receiver has now as url",
        )
    if status in (404, 410):
        return EntityMissing(text, hint=_ADDRESS)
    if status in (401, 403):
        return EntityUnavailable(text, hint=_RIGHTS)
    if status == 407:
        return EntityUnavailable(
            f"{text}: the proxy needs a user", hint="write proxy as http://USER:PASSWORD@HOST:PORT"
        )
    return EntityUnavailable(text, hint=_OTHER)


def words(status: int) -> str:
    """The status with its name, as the standard has it; the receiver's own words are not shown."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def seconds_of(retry_after: str | None, now: datetime) -> float:
    """How long the receiver asks to be left alone: seconds, or until a date. 0 where it says nothing that can be read."""
    if retry_after is None:
        return 0.0
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return min(MOST_WAIT, float(text[:9]))
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(MOST_WAIT, max(0.0, (until - now).total_seconds()))


def _host(location: str) -> str:
    """Of an address that may hold a secret."""
    try:
        return urlsplit(location).hostname or "another path"
    except ValueError:
        return "an address that cannot be read"
