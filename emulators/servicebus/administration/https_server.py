"""The management API over HTTPS: `AdminServer` behind TLS, each connection's handshake made in the thread that serves it.

A client that never finishes its handshake, or keeps a connection without using it, is hung up on after `PATIENCE` seconds;
meanwhile it holds up nobody else.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final

from .http_server import AdminServer

PATIENCE: Final = 60.0


class SecureListener(socket.socket):
    """A listening socket whose clients speak TLS."""

    context: ssl.SSLContext

    @classmethod
    def instead_of(cls, listener: socket.socket, context: ssl.SSLContext) -> SecureListener:
        """The same socket, taken over."""
        secure = cls(listener.family, listener.type, listener.proto, listener.detach())
        secure.context = context
        return secure

    def accept(self) -> tuple[ssl.SSLSocket, Any]:
        """Without the handshake: the first read makes it."""
        connection, address = super().accept()
        connection.settimeout(PATIENCE)
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address


class SecureAdminServer(AdminServer):
    """See `AdminServer`."""

    scheme = "https"

    def __init__(self, *arguments: Any, context: ssl.SSLContext, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._context = context

    def start(self) -> None:
        """Raises OSError when the port is taken."""
        super().start()
        assert self._server is not None
        self._server.socket = SecureListener.instead_of(self._server.socket, self._context)
