"""A TCP connection within a guard's time, and what it means when there is none."""

from __future__ import annotations

import socket
import ssl
from ipaddress import ip_address

from common.azure_amqp.deadline import Guard
from common.errors import TransientError
from common.in_time import in_time

CONNECT_TIMEOUT = 5.0
"""Seconds for one address to accept a connection: enough for a first packet that is lost and sent again."""


_NAME_HINT = (
    "check the namespace's name in the configuration (Endpoint or namespace), and this machine's DNS; where the namespace has a private endpoint: "
    "is its private DNS zone linked to this network?"
)


_PORT_HINT = (
    "check the namespace's name in the configuration, and that a firewall lets this machine out to it (AMQP over TLS: port 5671; where only 443 is "
    'open: transport = "websocket")'
)


_CA_HINT = (
    "if a firewall or proxy inspects TLS, set ca_file to a PEM file with its authority's certificate; otherwise check the namespace's name: "
    "another server may have answered"
)


def dialled(host: str, port: int, guard: Guard, *, hint: str | None = None) -> socket.socket:
    """A TCP connection. `hint`: what to do when it fails, instead of checking the namespace's name. Raises TransientError."""
    met: TransientError | None = None
    try:
        for address in addresses_of(host, port, guard.left()):
            try:
                return socket.create_connection((address, port), min(CONNECT_TIMEOUT, guard.left()))
            except OSError as error:
                met = unreachable(f"{host}:{port}", error)
                met.__cause__ = error
        raise met or TransientError(f"the name {host} has no address")
    except TransientError as error:
        error.hint = hint or error.hint
        raise


def addresses_of(host: str, port: int, seconds: float) -> list[str]:
    """Raises TransientError."""
    if _is_address(host):
        return [host]
    try:
        found = in_time(
            seconds, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), same=("address", host, port)
        )
    except OSError as error:  # TimeoutError is one
        raise unreachable(host, error, looking_up=True) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def untrusted(where: str, error: ssl.SSLCertVerificationError) -> TransientError:
    return TransientError(f"{where} has a certificate that is not trusted: {error.verify_message}", hint=_CA_HINT)


def unreachable(where: str, error: BaseException, *, looking_up: bool = False) -> TransientError:
    """The error for a person when `where` fails with `error` of a socket. `looking_up`: during the DNS lookup."""
    if isinstance(error, socket.gaierror):
        return TransientError(f"the name {where} cannot be resolved", hint=_NAME_HINT)
    if isinstance(error, TimeoutError):
        words = "DNS did not answer for" if looking_up else "no answer from"
        return TransientError(f"{words} {where}", hint=_NAME_HINT if looking_up else _PORT_HINT)
    if isinstance(error, ConnectionRefusedError):
        return TransientError(f"{where} refuses connections", hint=_PORT_HINT)
    told = getattr(error, "strerror", None) or type(error).__name__
    return TransientError(f"no connection to {where}: {told}", hint=_PORT_HINT)
