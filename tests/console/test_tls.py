"""`--tls-cert` and `--tls-key` of the process: HTTP and gRPC with one certificate, which clients really check."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from desk.console.http.accepting import HANDSHAKE_SECONDS
from tests.console.test_process import TOKEN, started
from tests.worlds.ports import free_port


def certified(folder: Path) -> tuple[Path, Path]:
    """Certificate and key, signed by itself, of this machine's names."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "tls.crt", folder / "tls.key"


def overview(port: int, trusted: Path, token: str | None) -> bytes:
    """By bytes: the empty request. Raises grpc.RpcError."""
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    with grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(trusted.read_bytes())) as channel:
        call: Any = channel.unary_unary("/dstream.v1.OverviewService/GetOverview")
        answer: bytes = call(b"", metadata=metadata, timeout=20)
        return answer


def test_http_and_grpc_speak_tls_with_the_certificate_that_clients_check(tmp_path: Path) -> None:
    ours, key = certified(tmp_path / "ours")
    stranger, _ = certified(tmp_path / "stranger")
    token = tmp_path / "token"
    token.write_text(TOKEN)
    port = free_port()
    options = ["--token-file", str(token), "--tls-cert", str(ours), "--tls-key", str(key), "--grpc-port", str(port)]
    with started(tmp_path, *options) as (_, said), ExitStack() as stack:
        assert said["address"].startswith("https://127.0.0.1:")
        silent = stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(said["address"]).port), 5))
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        trust = ssl.create_default_context(cafile=str(ours))
        with httpx.Client(base_url=said["address"], verify=trust) as client:
            assert client.get("/api/v1/overview", headers=bearer).status_code == 200
            assert client.get("/api/v1/overview").status_code == 401
            cookie = client.post("/api/v1/session", json={"token": TOKEN}).headers["set-cookie"]
            assert cookie.startswith("__Host-")
            assert "Secure" in cookie
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(said["address"], verify=ssl.create_default_context(cafile=str(stranger)))
        with pytest.raises(httpx.HTTPError):
            httpx.get(said["address"].replace("https", "http"))
        assert overview(port, ours, TOKEN)
        for trusted, given, code in (
            (ours, None, grpc.StatusCode.UNAUTHENTICATED),
            (stranger, TOKEN, grpc.StatusCode.UNAVAILABLE),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                overview(port, trusted, given)
            assert caught.value.code() is code
        silent.settimeout(HANDSHAKE_SECONDS + 60)
        assert silent.recv(1) == b"", "who never begins the handshake is let go"
