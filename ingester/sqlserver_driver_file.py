"""FreeTDS's own file: what pymssql has no parameter for, a section for every server whose certificate is verified.

Encrypt=mandatory and strict verify the server's certificate, as SqlClient does. FreeTDS in pymssql reads "ca file" from the file that
FREETDSCONF names, so this module keeps one. The driver is given the section's name, not the host's: should the file be gone, it finds
nobody, instead of somebody unverified.
https://www.freetds.org/userguide/freetdsconf.html
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import ssl
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from common.errors import PermanentError
from common.sqladdress import SqlAddress

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_TRUSTS_ANY = "true"


def verified(address: SqlAddress) -> bool:
    """Whether the server's certificate is looked at; strict encryption leaves no choice."""
    trusting = address.options.get("trust_server_certificate") == _TRUSTS_ANY
    return address.encrypt == "strict" or (address.encrypt == "mandatory" and not trusting)


def authorities(address: SqlAddress) -> Path:
    """The certificates to trust: the address's own, else the system's. Raises PermanentError when there are none."""
    if (given := address.options.get("server_certificate")) is not None:
        if not Path(given).is_file():
            raise PermanentError(
                f"verifying the server's certificate: there is no file {given}", hint="see certificate="
            )
        return Path(given).absolute()
    known = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    for path in known:
        if path is not None and Path(path).is_file():
            return Path(path)
    raise PermanentError(
        "verifying the server's certificate: this machine has no bundle of certificate authorities",
        hint="name a file with certificate=FILE in the connection string, or say TrustServerCertificate=true",
    )


class _DriverConfiguration:
    """The freetds.conf of this process, one section a verified server; gone when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._directory = Path()
        self._sections: dict[str, str] = {}

    def section(self, port: int, settings: Mapping[str, str]) -> str:
        """The name to give to the driver for these settings; the driver adds the port to it, and so does the section."""
        text = "".join(f"{key} = {value}\n" for key, value in settings.items())
        name = f"dstream-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        with self._lock:
            self._own()
            if name not in self._sections:
                self._sections[name] = f"[{name}:{port}]\n{text}"
                self._write()
        return name

    def link(self, path: Path) -> Path:
        """A path to the same file without the blanks and signs that FreeTDS would trip over."""
        with self._lock:
            self._own()
            link = self._directory / hashlib.sha256(bytes(path)).hexdigest()[:16]
            if not link.is_symlink():
                link.symlink_to(path)
            return link

    def _own(self) -> None:
        """A directory of this very process: a forked one (Spark's workers) must not lose its file when its parent ends."""
        if self._process != os.getpid():
            self._process, self._sections = os.getpid(), {}
            self._directory = Path(tempfile.mkdtemp(prefix="dstream-freetds-"))
            atexit.register(_remove, self._process, self._directory)

    def _write(self) -> None:
        file, new = self._directory / "freetds.conf", self._directory / "new.conf"
        new.write_text("\n".join(self._sections.values()))
        new.replace(file)
        os.environ["FREETDSCONF"] = str(file)


_driver_configuration = _DriverConfiguration()


def _remove(process: int, directory: Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def configured(address: SqlAddress) -> str:
    """The server under the name that its section in the driver's file has. Raises PermanentError for what fits no such file."""
    port = address.port or 1433
    settings = {
        "host": address.host,
        **({"instance": address.instance} if address.instance and not address.port else {"port": str(port)}),
        "encryption": "strict" if address.encrypt == "strict" else "require",
        "ca file": str(_driver_configuration.link(authorities(address))),
        "check certificate hostname": "yes",
    }
    if (name := address.options.get("host_name_in_certificate")) is not None:
        settings["certificate hostname"] = name
    if any(re.search(r"[\x00-\x20;#\[\]]", value) for value in settings.values()):
        raise PermanentError(f"connecting to SQL Server {address.host!r}: the driver cannot take such a host name")
    return _driver_configuration.section(port, settings)
