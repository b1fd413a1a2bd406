"""Whether a server's certificate is for the requested host and signed by a trusted authority. Python's ssl decides, as
for any client.

The driver verifies again when it connects, by name: it gets the name that was found here, which for a wildcard is the
wildcard itself. HostNameInCertificate replaces the host's name, as in SqlClient; one with a wildcard means a
certificate with that very wildcard.
https://learn.microsoft.com/dotnet/api/microsoft.data.sqlclient.sqlconnection.connectionstring
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import PermanentError
from common.sqladdress import SqlAddress
from ingester.sqlserver.login.handshake import NOT_SUPPORTED, OFF, ON, Line, Unencrypted, Untrusted

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_ALPN = "tds/8.0"

_FILE_HINT = "set certificate=FILE in ingester.db_connection_string to a PEM file, on each machine that runs the ingester or its tasks"


def authorities(address: SqlAddress) -> Path:
    """The certificates to trust: the address's, otherwise the system's. Raises PermanentError if there are none."""
    if (given := address.options.get("server_certificate")) is not None:
        if not Path(given).is_file():
            raise PermanentError(
                f"verifying the server's certificate: the file {given} does not exist", hint=_FILE_HINT
            )
        return Path(given).absolute()
    known = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    for path in known:
        if path is not None and Path(path).is_file():
            return Path(path)
    raise PermanentError(
        "verifying the server's certificate: this machine has no bundle of certificate authorities",
        hint="set certificate=FILE in the connection string, or TrustServerCertificate=true",
    )


def wanted_name(address: SqlAddress) -> str:
    return address.options.get("host_name_in_certificate", address.host)


@dataclass(frozen=True, slots=True)
class Greeting:
    """`name`: the name that the certificate is valid for, None if none was verified. `login_only`: encryption ends with
    the login."""

    name: str | None
    login_only: bool = False


def greet(line: Line, address: SqlAddress, *, to_log_in: bool = False) -> Greeting:
    """The first messages on `line`, up to the login. `to_log_in`: a login follows, which is encrypted if the server
    supports that.

    Raises Untrusted, ConnectionLost, and PermanentError without authorities.
    """
    federated = to_log_in and address.identity is not None
    if address.encryption == "strict":
        name = _verified(line, address, packets=False)
        line.prelogin(ON, federated=federated)
        return Greeting(name)
    encryption = line.prelogin(_wish(address), federated=federated)
    if address.encryption == "mandatory" and encryption != ON:
        raise Unencrypted("it does not encrypt")
    if address.verified:
        return Greeting(_verified(line, address, packets=True))
    if to_log_in and encryption != NOT_SUPPORTED:
        line.secure(_trusting(), address.host, packets=True)
    return Greeting(None, login_only=encryption == OFF)


def _trusting() -> ssl.SSLContext:
    """As the address requests: encryption with any server that answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _wish(address: SqlAddress) -> int:
    if address.encryption == "mandatory":
        return ON
    return NOT_SUPPORTED if address.encryption == "disable" else OFF


def _verified(line: Line, address: SqlAddress, *, packets: bool) -> str:
    wanted = wanted_name(address)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = "*" not in wanted
    try:
        context.load_verify_locations(authorities(address))
    except ssl.SSLError as error:
        raise PermanentError(
            f"verifying the server's certificate: {authorities(address)} holds no certificates in PEM",
            hint=_FILE_HINT,
        ) from error
    if not packets:
        context.set_alpn_protocols([_ALPN])
    names = _names(line.secure(context, wanted.replace("*", "any"), packets=packets))
    if "*" in wanted and wanted.lower() not in names:
        raise Untrusted(f"the certificate is not for {wanted} but for {', '.join(names) or 'no name'}")
    return _matching(wanted.lower(), names)


def _names(certificate: Mapping[str, Any]) -> Sequence[str]:
    """In lower case: the alternative names, or the common name if there are none."""
    others = [str(name).lower() for _, name in certificate.get("subjectAltName", ())]
    common = [
        str(value).lower() for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
    ]
    return others or common


def _matching(wanted: str, names: Sequence[str]) -> str:
    """The wildcard, if only that makes the certificate valid."""
    wildcard = f"*.{wanted.partition('.')[2]}"
    return wildcard if wanted not in names and wildcard in names else wanted
