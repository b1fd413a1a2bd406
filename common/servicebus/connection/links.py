"""Two corrections to how azure-servicebus 7.15 keeps a link. Changes single objects, and nothing in an SDK that is built otherwise.

Keeping: after a message was refused the SDK closes its link, which takes a second, although a rejected delivery ends only itself (AMQP 1.0,
3.4.3). A search for one message among many would take a second for each step.

Telling: a send whose link the service detaches fails with an unknown error; the link has the reason (for example that its entity was deleted).
Here that reason is the error.
"""

from __future__ import annotations

from typing import Any

from azure.servicebus.exceptions import ServiceBusError

from common.servicebus.errors import refusal

_UNKNOWN = "amqp:unknown-error"


def keep_when_refused(sender: Any) -> None:
    """Call once for one of the SDK's senders: its link stays when a message is refused for its content, and a detached link reports its own
    error.
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
