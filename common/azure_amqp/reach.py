"""Makes one of the SDK's connections within a guard's time: DNS, the TCP connection, TLS. An error names what could not be reached, and why.

azure-servicebus 7.15 and azure-eventhub 5.15 make and open a connection in one call, so the changes here are made in between: to single
objects, and to none in an SDK that is built otherwise.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from common.azure_amqp.deadline import Guard
from common.azure_amqp.dialling import CONNECT_TIMEOUT, addresses_of, unreachable, untrusted


def bound_reaching(handler: Any, guard: Guard) -> None:
    """Call once for the AMQP client of one of the SDK's senders or receivers, before it is opened."""
    kind = type(handler)

    def reached(self: Any) -> Any:
        return self.__dict__.get("_connection")

    def reach(self: Any, connection: Any) -> None:
        self.__dict__["_connection"] = connection
        if connection is not None:
            self.__class__ = kind
            _bound(getattr(connection, "_transport", None), guard)

    if "_connection" in vars(handler):
        handler.__class__ = type(kind.__name__, (kind,), {"_connection": property(reached, reach)})


def _bound(transport: Any, guard: Guard) -> None:
    if hasattr(transport, "_http_proxy"):
        _bound_websocket(transport, guard)
    if not hasattr(transport, "_wrap_socket"):
        return
    connect, set_up = transport.connect, transport._setup_transport

    def connect_in_time() -> None:
        if not transport.connected:
            _connect(transport, connect, guard)

    def set_up_in_time() -> None:
        # The TLS handshake moves the descriptor from the known socket to one that is not known yet.
        guard.connecting = transport.sock.dup()
        try:
            guard.left()
            set_up()
        finally:
            connecting, guard.connecting = guard.connecting, None
            connecting.close()

    transport.connect, transport._setup_transport = connect_in_time, set_up_in_time


def _bound_websocket(transport: Any, guard: Guard) -> None:
    from common.azure_amqp.websocket import connect  # only a WebSocket needs its library

    transport.connect = lambda: connect(transport, guard)


def _connect(transport: Any, connect: Callable[[], None], guard: Guard) -> None:
    """Raises TransientError that says in plain words why no connection was made; errors of TLS pass unchanged."""
    host, port = transport.host, transport.port
    addresses = addresses_of(host, port, guard.left())
    for number, address in enumerate(addresses, 1):
        transport.host, transport.connect_timeout = address, min(CONNECT_TIMEOUT, guard.left())
        try:
            connect()
        except ssl.SSLCertVerificationError as error:
            raise untrusted(f"{host}:{port}", error) from error
        except ssl.SSLError:
            raise
        except OSError as error:
            if not isinstance(error, TimeoutError):
                guard.left()
            if number == len(addresses):
                raise unreachable(f"{host}:{port}", error) from error
        else:
            return
        finally:
            transport.host = host
