"""The port of a named instance, from the SQL Server Browser at UDP 1434.

https://learn.microsoft.com/openspecs/windows_protocols/mc-sqlr (2.2.3 CLNT_UCAST_INST, 2.2.5 SVR_RESP)
"""

from __future__ import annotations

import contextlib
import socket
import time

from common.errors import ConnectionLost

_PORT = 1434
_ASK = b"\x04"
_AGAIN = 1.0
"""Seconds until the question is asked again: a datagram may be lost."""

_PAUSE = 0.25
"""Seconds between two questions at least, when an answer or an error comes at once."""


def port_of(host: str, instance: str, doing: str, seconds: float) -> int:
    """Raises ConnectionLost if there is no answer in time, or the answers have no TCP port."""
    end = time.monotonic() + seconds
    hint = "check the instance's name, that the service runs and that UDP 1434 is open, or set the port instead"
    while (left := end - time.monotonic()) > 0:
        asked = time.monotonic()
        with contextlib.suppress(OSError):
            if port := _told(_asked(host, instance, min(left, _AGAIN))):
                return port
            hint = (
                "it answers without a TCP port: enable TCP/IP for the instance and restart it, or set the port instead"
            )
        time.sleep(max(0.0, min(left, _PAUSE) - (time.monotonic() - asked)))
    raise ConnectionLost(
        f"{doing}: the SQL Server Browser does not report the port of the instance {instance!r}", hint=hint
    )


def _asked(host: str, instance: str, seconds: float) -> str:
    family, kind, protocol, _, address = socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as browser:
        browser.settimeout(seconds)
        browser.connect(address)
        browser.send(_ASK + instance.encode("latin-1", "replace") + b"\0")
        return browser.recv(2048)[3:].decode("latin-1")


def _told(answer: str) -> int | None:
    """`ServerName;H;InstanceName;I;...;tcp;49900;;` has names and values in turn."""
    parts = answer.split(";")
    port = dict(zip(parts[::2], parts[1::2], strict=False)).get("tcp", "")
    return int(port) if port.isdigit() else None
