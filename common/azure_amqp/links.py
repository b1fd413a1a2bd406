"""Three corrections to how azure-servicebus 7.15 and azure-eventhub 5.15 open and close a link. Changes single objects, and nothing in an SDK
that is built otherwise.

Opening: between any two frames of the handshake the SDK sleeps 50 ms, although reading the next frame waits for it anyway. A link
then takes 0.46 s, which a slot would pay for each session. Here it reads on at once, and a link takes a few milliseconds.

Reaching: see reach.py.

Closing: `Connection.close` gets an error on a broken connection and notes the state END, so `_disconnect` takes the socket for closed. It
stays open until the garbage collector finds it: one descriptor for each fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from common.azure_amqp.deadline import Guard
from common.azure_amqp.reach import bound_reaching
from common.errors import TransientError

_LOOKING = 0.5
"""Seconds of looking before the SDK may check its own deadline again."""


class Waiting:
    """Waits for a link to be attached: the service answers when there is a session. `give_up`: whether it is no longer needed."""

    def __init__(self, give_up: Callable[[], bool] | None = None) -> None:
        self._give_up = give_up
        self.given_up = False

    def look(self) -> None:
        """Raises TransientError when the wait is over."""
        if self._give_up is not None and self._give_up():
            self.given_up = True
            raise TransientError("opening a link was given up")


def tend(
    handle: Any,
    guard: Guard,
    *,
    heartbeat: int | None = None,
    attached: Callable[[Any], None] | None = None,
    waits: Waiting | None = None,
) -> None:
    """Call once for one of the SDK's senders or receivers, before it is opened: `guard` bounds its calls from now on.

    `heartbeat`: seconds within which the service must send something, for links that read all the time. `attached`: called with the handler
    once its link is attached, before anything is received. `waits`: asked until then whether to go on.
    """
    guard.handle = handle
    create = getattr(handle, "_create_handler", None)
    if create is None:
        return

    def create_and_tend(auth: Any) -> None:
        create(auth)
        if heartbeat is not None and hasattr(handle._handler, "_idle_timeout"):
            handle._handler._idle_timeout = heartbeat
        bound_reaching(handle._handler, guard)
        _open_without_naps(handle._handler, attached, waits or Waiting())
        _close_with_socket(handle._handler)

    handle._create_handler = create_and_tend


def _open_without_naps(handler: Any, attached: Callable[[Any], None] | None, waits: Waiting) -> None:
    ready = getattr(handler, "client_ready", None)
    if ready is None:
        return

    def ready_soon() -> bool:
        until = time.monotonic() + _LOOKING
        while time.monotonic() < until:
            waits.look()
            if ready():
                handler.client_ready = ready  # it is asked before every frame from now on: no detour there
                if attached is not None:
                    attached(handler)
                return True
        return False

    handler.client_ready = ready_soon


def _close_with_socket(handler: Any) -> None:
    close = handler.close

    def close_all() -> None:
        transport = getattr(getattr(handler, "_connection", None), "_transport", None)
        try:
            close()
        finally:
            if transport is not None:
                transport.close()

    handler.close = close_all
