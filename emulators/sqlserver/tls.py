"""What SQL Server's emulator encrypts with: the certificate of any emulator, the TLS of TDS 7.x."""

from __future__ import annotations

import ssl

from emulators import certificates


class TlsSettings(certificates.TlsSettings):
    """TLS 1.2 and nothing else."""

    __slots__ = ()

    @classmethod
    def new_context(cls) -> ssl.SSLContext:
        """TDS 7.x clients (FreeTDS) lose step over the session tickets that TLS 1.3 sends after its handshake."""
        context = super().new_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        return context
