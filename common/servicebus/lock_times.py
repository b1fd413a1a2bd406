"""How long the locks of received messages and sessions remain, read from the SDK's objects, which then forget it.

The SDK compares the end of a lock with the wall clock and refuses to settle what seems too late. A machine whose clock is ahead could then settle
nothing. DStream counts by the steady clock instead (common/servicebus/lock_life.py).
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import structlog
from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

from common.servicebus.lock_life import clock_ahead

_NEVER = datetime.max.replace(tzinfo=UTC)

log = structlog.get_logger(__name__)


def session_lock(receiver: ServiceBusReceiver) -> float:
    """Seconds that the session's lock remains by this machine's wall clock. The SDK is made to forget it: with a clock ahead of the service's it
    would refuse every call on the session."""
    session: Any = receiver.session
    if session is None:
        return 0.0
    moment, session._locked_until_utc = session.locked_until_utc, None
    return _until(moment)


def message_lock(received: ServiceBusReceivedMessage) -> float:
    """As for a session: the SDK would refuse to settle the message."""
    remaining = _until(received.locked_until_utc)
    received._expiry = _NEVER
    return remaining


def _until(moment: datetime | None) -> float:
    """Seconds from now, by this machine's wall clock."""
    return (moment - datetime.now(UTC)).total_seconds() if moment is not None else 0.0


_warned = threading.Event()


def warn_of_clock(remaining: float) -> None:
    """Log once a process that this machine's clock differs, which a lock of `remaining` seconds right after its renewal shows."""
    ahead = clock_ahead(remaining)
    if ahead == 0 or _warned.is_set():
        return
    _warned.set()
    log.warning(
        "this machine's clock differs from Service Bus's",
        seconds=abs(round(ahead)),
        clock="ahead" if ahead > 0 else "behind",
        hint="set it (NTP, chrony). Locks do not depend on it here; tokens do, and are refused once they seem to be over",
    )
