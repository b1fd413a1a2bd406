"""The server's side of a TLS handshake, which is made unless a fault keeps it from being answered."""

from __future__ import annotations

import ssl
from collections.abc import Callable


def handshakes(unheard: Callable[[bool], bool]) -> type[ssl.SSLObject]:
    """A class for `SSLContext.sslobject_class`. `unheard(True)` is asked once of each handshake: whether it is never answered."""

    class Handshake(ssl.SSLObject):
        hushed: bool | None = None

        def do_handshake(self) -> None:
            if self.hushed is None:
                self.hushed = unheard(True)
            if self.hushed:
                raise ssl.SSLWantReadError
            super().do_handshake()

    return Handshake
