"""The PEM file of the certificate authorities that a connection trusts: whether it can be used. Connects to nothing."""

from __future__ import annotations

import ssl

CA_HINT = (
    "name a PEM file with the certificates of the authorities to trust, or leave ca_file out to trust the public ones"
)


def fault_of(ca_file: str) -> str | None:
    """Why the file cannot be used; None when it can. TLS libraries would only say that no connection can be made."""
    try:
        ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        return "it holds no PEM certificate"
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
