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


def port_of(host: str, instance: str, doing: str, seconds: float) -> int:
    """Raises ConnectionLost if there is no answer in time, or the answer has no TCP port."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(OSError):
            return _told(_asked(host, instance, min(left, _AGAIN)))
    raise ConnectionLost(
        f"{doing}: the SQL Server Browser does not report the port of the instance {instance!r}",
        hint="check the instance's name, that the service runs and that UDP 1434 is open, or set the port instead",
    )


def _asked(host: str, instance: str, seconds: float) -> str:
    family, kind, protocol, _, address = socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)[0]
    began = time.monotonic()
    with socket.socket(family, kind, protocol) as browser:
        browser.settimeout(seconds)
        try:
            browser.connect(address)
            browser.send(_ASK + instance.encode("latin-1", "replace") + b"\0")
            return browser.recv(2048)[3:].decode("latin-1")
        except OSError:
            time.sleep(max(0.0, min(seconds, _AGAIN / 4) - (time.monotonic() - began)))
            raise


def _told(answer: str) -> int:
    """`ServerName;H;InstanceName;I;...;tcp;49900;;` has names and values in turn."""
    parts = answer.split(";")
    given = dict(zip(parts[::2], parts[1::2], strict=False))
    if not given.get("tcp", "").isdigit():
        raise OSError("no TCP port")
    return int(given["tcp"])
