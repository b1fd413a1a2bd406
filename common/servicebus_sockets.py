"""Closes the socket that the SDK forgets when a connection breaks. Does nothing else, and nothing where the SDK is built otherwise.

azure-servicebus 7.15: `Connection.close` meets an error on a broken connection, notes the state END, and `_disconnect` then takes the
socket for closed. It stays open until the garbage collector comes by: one descriptor for each fault.
"""

from __future__ import annotations

from typing import Any

from azure.servicebus import ServiceBusReceiver, ServiceBusSender


def close_sockets_of(handle: ServiceBusSender | ServiceBusReceiver) -> None:
    """Call once, before `handle` is opened: from then on, closing its link closes the socket under it in any case."""
    private: Any = handle
    create = getattr(private, "_create_handler", None)
    if create is None:
        return

    def create_and_watch(auth: Any) -> None:
        create(auth)
        _watch(private._handler)

    private._create_handler = create_and_watch


def _watch(handler: Any) -> None:
    close = handler.close

    def close_all() -> None:
        transport = getattr(getattr(handler, "_connection", None), "_transport", None)
        try:
            close()
        finally:
            if transport is not None:
                transport.close()

    handler.close = close_all
