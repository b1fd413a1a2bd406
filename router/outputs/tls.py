"""The TLS files that blocks of outputs name: whom a connection trusts, and why a file cannot be used. Opens nothing but these files."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from common.authorities import CA_HINT, fault_of


def trust(ca_file: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """A context for connections, with the client's certificate if it has one. Raises OSError for a file that cannot be used."""
    context = ssl.create_default_context(cafile=ca_file)
    if certificate is not None:
        # a function, because without one OpenSSL would ask at the terminal
        context.load_cert_chain(certificate, key, password=lambda: "")
    return context


def unusable(ca_file: str | None, load: Callable[[], object], remedy: str) -> tuple[str, str] | None:
    """See `BusSettings.unusable_file`. `load` reads the client's certificate and raises OSError; `remedy`: for a pair that does not fit."""
    if ca_file is not None and (fault := fault_of(ca_file)) is not None:
        return "ca_file", f"{fault}: {CA_HINT}"
    try:
        load()
    except ssl.SSLError:
        return "client_certificate", f"it and its key cannot be used: {remedy}"
    except OSError as error:
        return "client_certificate", f"{error.filename or ''}: {error.strerror or type(error).__name__}"
    return None
