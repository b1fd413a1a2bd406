"""A small API server over TLS that knows ConfigMaps of one namespace: as much of the real one as the console uses.

As at the real one: a bearer token or 401, rights by name or 403, a merge patch that names another version or 409, `Status` for every refusal.
https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from desk.configuring.places.api_server import ApiServer

HOST = "127.0.0.1"
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 415: "UnsupportedMediaType"}


class Cluster:
    """`maps`: the ConfigMaps by namespace and name. `allowed`: those that the token's account may get and patch."""

    def __init__(self, folder: Path) -> None:
        self.account = folder / "account"
        self.account.mkdir()
        self.maps: dict[tuple[str, str], dict[str, Any]] = {}
        self.allowed: set[tuple[str, str]] = set()
        self.asked: list[str] = []
        self.pause = 0.0
        self._versions = 100
        self._lock = threading.Lock()
        self.renew("first-token")

    def renew(self, token: str) -> None:
        """As the kubelet does: another file, and the former token is worth nothing."""
        self.token = token
        (self.account / "token").write_text(token)

    def put(self, namespace: str, name: str, data: dict[str, str], **more: Any) -> None:
        with self._lock:
            self._versions += 1
            metadata = {"namespace": namespace, "name": name, "resourceVersion": str(self._versions)}
            self.maps[namespace, name] = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": data,
                **more,
            }

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        self.asked.append(method)
        time.sleep(self.pause)
        if headers.get("Authorization") != f"Bearer {self.token}":
            return _refused(401, "Unauthorized")
        parts = path.strip("/").split("/")
        if len(parts) != 6 or parts[:3] != ["api", "v1", "namespaces"] or parts[4] != "configmaps":
            return _refused(404, "the server could not find the requested resource")
        key = parts[3], parts[5]
        if key not in self.allowed or method not in ("GET", "PATCH"):
            who = "system:serviceaccount:dstream:dstream-console"
            text = f'configmaps "{key[1]}" is forbidden: User "{who}" cannot {method.lower()} resource "configmaps"'
            return _refused(403, f'{text} in API group "" in the namespace "{key[0]}"')
        with self._lock:
            if key not in self.maps:
                return _refused(404, f'configmaps "{key[1]}" not found')
            if method == "PATCH":
                if headers.get("Content-Type") != "application/merge-patch+json":
                    return _refused(415, "the body of the request was in an unknown format")
                return self._patched(key, json.loads(body))
            return 200, self.maps[key]

    def _patched(self, key: tuple[str, str], change: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        present = self.maps[key]
        if present.get("immutable"):
            return _refused(422, f'ConfigMap "{key[1]}" is invalid: data: Forbidden: field is immutable')
        version = change.get("metadata", {}).get("resourceVersion", present["metadata"]["resourceVersion"])
        if version != present["metadata"]["resourceVersion"]:
            text = "the object has been modified; please apply your changes to the latest version and try again"
            return _refused(409, f'Operation cannot be fulfilled on configmaps "{key[1]}": {text}')
        self._versions += 1
        metadata = {**present["metadata"], "resourceVersion": str(self._versions)}
        self.maps[key] = {**present, "metadata": metadata, "data": {**present["data"], **change.get("data", {})}}
        return 200, self.maps[key]


def _refused(code: int, message: str) -> tuple[int, dict[str, Any]]:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return code, {**status, "reason": _REASONS.get(code, "Invalid"), "code": code}


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Cluster, ApiServer]]:
    """A cluster, and what a pod in it knows of its API server."""
    found = Cluster(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*_certificate(folder, found.account / "ca.crt"))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, document = found.answer(self.command, self.path, self.headers, body)
            data = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that trust another authority hang up."""

    server = Server((HOST, 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found, ApiServer(HOST, server.server_address[1], found.account)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _certificate(folder: Path, authority: Path) -> tuple[Path, Path]:
    """Of the server, signed by itself: the authority of the cluster."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file, secret = folder / "server.crt", folder / "server.key"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    secret.write_bytes(pem)
    authority.write_bytes(file.read_bytes())
    return file, secret
