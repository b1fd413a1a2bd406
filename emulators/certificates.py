"""An emulator's certificate: given, or made for the occasion by the openssl program, under a certificate authority of its own.

The authority's certificate can be written to a file, so that clients verify the server as they would a real one. Its key is thrown
away with the temporary directory that all of this is made in: nobody can sign anything else with it.
"""

from __future__ import annotations

import ipaddress
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

LOCAL = ("localhost", "127.0.0.1", "::1")

_DAYS = "30"
_CONFIGURATION = """\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = {name}
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What the server encrypts with; `authority` is the PEM text of the certificate that clients must trust."""

    context: ssl.SSLContext
    authority: str

    @classmethod
    def new_context(cls) -> ssl.SSLContext:
        """TLS 1.2 and newer."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    @classmethod
    def from_files(cls, certificate: Path, key: Path, authority: Path | None = None) -> Self:
        """A certificate that exists, PEM; without an `authority` it is its own. Raises OSError (ssl.SSLError is one)."""
        context = cls.new_context()
        context.load_cert_chain(certificate, key)
        return cls(context, (authority or certificate).read_text())

    @classmethod
    def self_made(cls, names: Sequence[str] = LOCAL) -> Self:
        """A new authority and a certificate by it for these host names and addresses, good for a month.

        Raises RuntimeError when there is no openssl program, or it fails.
        """
        if shutil.which("openssl") is None:
            raise RuntimeError("making a certificate: the openssl program is not installed")
        with tempfile.TemporaryDirectory(prefix="emulator-tls-") as directory:
            place = Path(directory)
            _make_authority(place)
            _make_certificate(place, names)
            return cls.from_files(place / "server.pem", place / "server.key", place / "authority.pem")


def _make_authority(place: Path) -> None:
    _configure(place, f"emulator authority {secrets.token_hex(4)}", LOCAL)
    _openssl(
        place, "req", "-x509", *_NEW_KEY, "authority.key", *_CONFIGURED, "-extensions", "authority",
        "-set_serial", _serial(), "-days", _DAYS, "-out", "authority.pem",
    )  # fmt: skip


def _make_certificate(place: Path, names: Sequence[str]) -> None:
    _configure(place, names[0], names)
    _openssl(place, "req", *_NEW_KEY, "server.key", *_CONFIGURED, "-out", "server.csr")
    _openssl(
        place, "x509", "-req", "-in", "server.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-sha256",
        "-set_serial", _serial(), "-days", _DAYS, "-extfile", "openssl.cnf", "-extensions", "server", "-out", "server.pem",
    )  # fmt: skip


_NEW_KEY = ("-new", "-newkey", "rsa:2048", "-nodes", "-sha256", "-keyout")
_CONFIGURED = ("-config", "openssl.cnf")


def _configure(place: Path, name: str, names: Sequence[str]) -> None:
    text = _CONFIGURATION.format(name=name, names=", ".join(map(_alternative, names)))
    (place / "openssl.cnf").write_text(text)


def _alternative(name: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        return f"DNS:{name}"


def _serial() -> str:
    return str(secrets.randbits(63) | 1)


def _openssl(place: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"making a certificate: openssl {arguments[0]}: {done.stderr.strip()[-300:]}")
