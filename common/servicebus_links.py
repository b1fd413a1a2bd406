"""Five corrections to how azure-servicebus 7.15 opens, keeps and closes a link. Changes single objects, and nothing where the SDK is
built otherwise.

Opening: between any two frames of the handshake the SDK sleeps 50 ms, although looking for the next frame waits for it anyway. A link
then takes 0.46 s, which a slot would pay for each session it takes. Here it looks again at once: a few milliseconds.

Reaching: see servicebus_reach.py.

Keeping: after a message was refused the SDK closes the link that said so, which takes a second, though a rejected delivery ends nothing but
itself (AMQP 1.0, 3.4.3). Where one message of many is looked for, that is a second for each step.

Telling: a send whose link the service detaches fails with an unknown error; why the link was detached (its entity was deleted, say) is kept
with the link. Here that is the error.

Closing: `Connection.close` meets an error on a broken connection, notes the state END, and `_disconnect` then takes the socket for
closed. It stays open until the garbage collector comes by: one descriptor for each fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from azure.servicebus.exceptions import ServiceBusError

from common.errors import TransientError
from common.servicebus_deadline import Guard
from common.servicebus_errors import refusal
from common.servicebus_reach import bound_reaching

_UNKNOWN = "amqp:unknown-error"

_LOOKING = 0.5
"""Seconds of looking before the SDK may check its own deadline again."""


class Waiting:
    """For a link to be attached: the service answers when there is a session. `give_up`: whether nobody wants it any more."""

    def __init__(self, give_up: Callable[[], bool] | None = None) -> None:
        self._give_up = give_up
        self.given_up = False

    def look(self) -> None:
        """Raises TransientError when it is over."""
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

    `heartbeat`: seconds within which the service is asked to say something at least, which is for those that read all the time.
    `attached`: called with the handler once its link is attached, before anything is received. `waits`: asked while it is not, whether to go on.
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


def keep_when_refused(sender: Any) -> None:
    """Call once for one of the SDK's senders: where what it sends is refused for what it is the link stays, and where it was detached its own
    error is told.
    """
    handle = getattr(sender, "_handle_exception", None)
    if handle is None:
        return

    def handle_and_keep(error: BaseException) -> Any:
        if isinstance(error, ServiceBusError) and refusal(error) is not None:
            error._shutdown_handler = False
        elif _UNKNOWN in str(error):
            link = getattr(getattr(sender, "_handler", None), "_link", None)
            error = getattr(link, "_error", None) or error
        return handle(error)

    sender._handle_exception = handle_and_keep


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
