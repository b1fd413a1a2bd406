"""AMQP over WebSocket: makes the connection within a guard's time. TCP, to the namespace or to an HTTP proxy, a tunnel, TLS, the handshake.

azure-servicebus 7.15 and azure-eventhub 5.15 leave all of it to websocket-client, which allows a second for each step and hides its socket. Here
websocket-client makes only the handshake. The protocol: RFC 6455 and
https://docs.oasis-open.org/amqp-bindmap/amqp-wsb/v1.0/amqp-wsb-v1.0.html
"""

from __future__ import annotations

import base64
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

import websocket

from common.azure_amqp.address import Proxy
from common.azure_amqp.deadline import Guard
from common.azure_amqp.dialling import dialled, unreachable, untrusted
from common.errors import TransientError

PORT = 443
"""The port of a namespace for WebSockets."""

SUBPROTOCOL = "AMQPWSB10"

UNACKNOWLEDGED_MS = 5000
"""How long what was sent may go without an acknowledgement of TCP. Else the system would go on for a quarter of an hour to send what a process
has left behind that died, and messages arrive long after others have taken its place. The SDK's transport over plain TLS waits a second; a
proxy on the way may stand still for longer, and five fit into the margin of a snapshot's fence."""

_LONGEST_ANSWER = 65_536
"""The most octets that are read of a proxy's answer."""

_PROXY_HINT = (
    "check proxy in the configuration, http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, and that it lets this machine through to the namespace's "
    "port 443"
)

_HANDSHAKE_HINT = (
    "something on the way (a proxy, a firewall) answers instead of the namespace: it must let WebSockets through"
)


def connect(transport: Any, guard: Guard) -> None:
    """In place of the method of the SDK's transport. Raises TransientError."""
    url = f"{'wss' if transport._use_tls else 'ws'}://{transport._custom_endpoint or transport._host}"
    where = urlsplit(url)
    host, port = str(where.hostname), where.port or PORT
    try:
        transport.sock = _handshaken(_way_there(host, port, transport, guard), url, guard)
    except (OSError, websocket.WebSocketException) as error:
        if not isinstance(error, TimeoutError):
            guard.left()
        if isinstance(error, OSError):
            raise unreachable(f"{host}:{port}", error) from error
        said = " ".join(str(error).split())[:300]
        raise TransientError(f"{host}:{port} does not speak WebSocket: {said}", hint=_HANDSHAKE_HINT) from error
    finally:
        connecting, guard.connecting = guard.connecting, None
        if connecting is not None:
            connecting.close()
    transport.sock.settimeout(transport.socket_timeout)


def _way_there(host: str, port: int, transport: Any, guard: Guard) -> socket.socket:
    """A connection to the namespace on which nothing but TLS has been exchanged."""
    proxy = transport._http_proxy
    sock = dialled(host, port, guard) if proxy is None else _dialled(Proxy.of_sdk(proxy), guard)
    guard.connecting = sock.dup()
    try:
        sock.settimeout(guard.left())
        if proxy is not None:
            _tunnel(sock, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", Proxy.of_sdk(proxy))
        if not transport._use_tls:
            return sock
        context = transport.sslopts.get("context") or ssl.create_default_context(cafile=transport.sslopts["ca_certs"])
        secured: ssl.SSLSocket = context.wrap_socket(sock, server_hostname=host)
        return secured
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise untrusted(f"{host}:{port}", error) from error
    except BaseException:
        sock.close()
        raise


def _dialled(proxy: Proxy, guard: Guard) -> socket.socket:
    """Raises TransientError that names the proxy as the trouble."""
    try:
        return dialled(proxy.host, proxy.port, guard, hint=_PROXY_HINT)
    except TransientError as error:
        raise TransientError(f"the proxy cannot be reached: {error.message}", hint=error.hint) from error


def _handshaken(sock: socket.socket, url: str, guard: Guard) -> websocket.WebSocket:
    try:
        made = websocket.create_connection(
            url, timeout=guard.left(), socket=sock, subprotocols=[SUBPROTOCOL], skip_utf8_validation=True
        )
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
        return made
    except BaseException:
        sock.close()
        raise


def _tunnel(sock: socket.socket, target: str, proxy: Proxy) -> None:
    """CONNECT (RFC 9110, 9.3.6). Raises TransientError, which names the proxy, for an answer other than 2xx and for none."""
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.user or proxy.password:
        credentials = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    try:
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        status = _status(sock)
    except TimeoutError:  # the socket's own, which may be a moment before the guard's
        status = ""
    if status.split(" ")[1:2] and status.split(" ")[1].startswith("2"):
        return
    raise TransientError(f"the proxy {proxy} does not connect to {target}: {status or 'no answer'}", hint=_PROXY_HINT)


def _status(sock: socket.socket) -> str:
    """The first line of a proxy's answer, "" if it closes the connection instead. Reads the whole answer and nothing after it."""
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n") and len(answer) < _LONGEST_ANSWER:
        octet = sock.recv(1)  # what follows the answer belongs to TLS
        if not octet:
            break
        answer += octet
    return answer.partition(b"\r\n")[0].decode("ascii", "replace")
