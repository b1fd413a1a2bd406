"""Pages of health ports, read with one deadline for all of it and a limit for their size. Plain HTTP, because health ports speak nothing else.

A name may stand for several processes, as that of a Kubernetes service does: each of its addresses is read.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from common.errors import ConfigurationError, TransientError
from common.in_time import in_time

SECONDS = 3.0
_LIMIT = 16 << 20
"""Bytes of a page. The metrics of 1,000 tables are about two million."""
_PORT = 8080


@dataclass(frozen=True, slots=True)
class Target:
    """A health port. `host`: as it was given, for the header."""

    host: str
    address: str
    port: int

    def __str__(self) -> str:
        numeric = f"[{self.address}]" if ":" in self.address else self.address
        return f"{numeric}:{self.port}"


def place_of(url: str) -> tuple[str, int]:
    """Host and port of `http://ingester:8080`. Raises ConfigurationError."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("", "http") or not parts.hostname or port == -1 or parts.path.strip("/") or parts.username:
        raise ConfigurationError(
            [f"{url}: not the address of a health port"], hint="write host and port of it, such as http://ingester:8080"
        )
    return parts.hostname, port or _PORT


def targets_of(host: str, port: int) -> Sequence[Target]:
    """Every address of `host`. Raises TransientError."""
    try:
        found = in_time(
            SECONDS,
            lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM),
            same=("health port", host, port),
            name="resolving",
        )
    except TimeoutError:
        raise TransientError(f"resolving {host}: no answer within {SECONDS:g} s") from None
    except (OSError, UnicodeError) as error:
        raise TransientError(f"resolving {host}: {getattr(error, 'strerror', None) or error}") from error
    return [Target(host, address, port) for address in dict.fromkeys(str(each[4][0]) for each in found)]


def fetched(target: Target, path: str) -> tuple[int, str]:
    """Status and text. Raises TransientError."""
    connection = HTTPConnection(target.address, target.port, timeout=SECONDS)
    try:
        return in_time(SECONDS, lambda: _exchange(connection, target.host, path), name="scraping")
    except TimeoutError:
        with suppress(OSError, AttributeError):  # it ends the thread that reads
            connection.sock.shutdown(socket.SHUT_RDWR)
        raise TransientError(f"{target}{path}: no answer within {SECONDS:g} s") from None
    except HTTPException as error:
        raise TransientError(f"{target}{path}: this is no answer of a health port ({type(error).__name__})") from error
    except OSError as error:
        raise TransientError(f"{target}{path}: {error.strerror or error}") from error


def _exchange(connection: HTTPConnection, host: str, path: str) -> tuple[int, str]:
    try:
        connection.request("GET", path, headers={"Host": host, "Connection": "close"})
        response = connection.getresponse()
        body = response.read(_LIMIT + 1)
    finally:
        connection.close()
    if len(body) > _LIMIT:
        raise HTTPException("the page is too large")
    return response.status, body.decode("utf-8", "replace")
