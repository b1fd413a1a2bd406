"""What JetStream's answers to a published message mean. Pure; knows no client.

The codes are those of nats-server's server/errors.json.
"""

from __future__ import annotations

import json
from typing import Any, Final

from common.bus.ports import SendInterrupted
from common.errors import DStreamError, EntityMissing, EntityUnavailable

_WRONG_LAST_ID: Final = 10070
_OTHER_STREAM: Final = 10060
_TOO_LARGE: Final = (10054, 10097)
_NOT_ENABLED: Final = (10039, 10076)
_FULL: Final = (10023, 10028, 10047, 10077)
_BUSY: Final = (10167,)
_IN_PROCESS: Final = (10158,)
"""A copy of the message is on its way to being stored, which may fail yet."""

_RIGHT = "give the user the right to publish on the subject, and to subscribe to _INBOX.> for the answers"
_MISSING = 'create the stream with this subject (provision = "create" does), or correct stream and subject; JetStream must be enabled'
_FULL_HINT = "make room: raise the stream's limits (max_bytes, max_age, or the account's storage), or let consumers finish and purge it"


class Conflict(Exception):
    """Another message came between: it was not taken, and neither is any that was chained to it."""


class Refused(Exception):
    """The stream never takes this message: in words."""


def acknowledged(data: bytes, doing: str) -> None:
    """Return when the message is stored, also if it was before. Raises Conflict, Refused, SendInterrupted or EntityUnavailable."""
    try:
        answer = json.loads(data)
        error = answer.get("error")
    except (ValueError, AttributeError) as cause:
        raise EntityUnavailable(
            f"{doing}: the answer is not JetStream's: another program answers on this subject", hint=_MISSING
        ) from cause
    if error is None:
        if "stream" not in answer or "seq" not in answer:
            raise EntityUnavailable(
                f"{doing}: the answer is not JetStream's: another program answers on this subject", hint=_MISSING
            )
        return
    raise _fault(error, doing)


def _fault(error: Any, doing: str) -> Exception:
    code, kind = int(error.get("err_code") or 0), int(error.get("code") or 0)
    words = f"{error.get('description') or 'no description'} (error {code})"
    text = f"{doing}: the stream answered: {words}"
    if code == _WRONG_LAST_ID:
        return Conflict(words)
    if code in _TOO_LARGE:
        return Refused(words)
    if code == _OTHER_STREAM:
        return EntityUnavailable(
            text, hint="another stream has this subject: set stream to its name, or take the subject from it"
        )
    if code in _NOT_ENABLED:
        return EntityUnavailable(text, hint="enable JetStream on the server and for the account")
    if code in _FULL:
        return SendInterrupted(text, hint=_FULL_HINT)
    if code in _BUSY or kind == 429:
        return SendInterrupted(text, throttled=True)
    return (
        SendInterrupted(text)
        if kind >= 500 or code in _IN_PROCESS
        else EntityUnavailable(text, hint="see the server's log and the stream's configuration")
    )


def missing(subject: str, stream: str) -> EntityMissing:
    return EntityMissing(f"sending to {subject}: no JetStream stream takes it (expected: {stream})", hint=_MISSING)


def not_allowed(doing: str, words: str) -> DStreamError:
    """`words`: the server's, which name the subject."""
    return EntityUnavailable(f"{doing}: the server answered: {words}", hint=_RIGHT)
