"""Microsoft's mssql-python as a client, on the driver in its own wheels (MSSQL_PYTHON_NATIVE_PROVIDER)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import mssql_python

from tests.emulators.sqlserver.clients.python.program import Program, main, native

_ENCRYPTION = {
    "off": "Encrypt=no",
    "login": "Encrypt=no",
    "trust": "Encrypt=yes;TrustServerCertificate=yes",
    "verify": "Encrypt=yes;TrustServerCertificate=no",
}


class Microsoft(Program):
    """Its errors carry words alone; its cancel is a statement's timeout."""

    error = mssql_python.Error

    def connect(self, **changed: Any) -> Any:
        wanted = self.server | changed
        if self.server["ca"] is not None:
            os.environ["SSL_CERT_FILE"] = self.server["ca"]  # it trusts what the system trusts
        return mssql_python.connect(
            f"Server={wanted['host']},{wanted['port']};Database={wanted['database']};UID={wanted['user']};"
            f"PWD={wanted['password']};ConnectRetryCount=0;{_ENCRYPTION[wanted['tls']]}{_pinned(changed)}",
            autocommit=True,
        )

    def number(self, error: Exception) -> int | None:
        return None

    def placeholder(self, position: int) -> str:
        return "?"

    def parameters(self, types: Sequence[str], values: Sequence[object]) -> tuple[object, ...]:
        return tuple(native(type_, value) for type_, value in zip(types, values, strict=True))

    def cancel(self, step: dict[str, Any]) -> object:
        self.connection.timeout = 1
        try:
            self._run(self.connection.cursor(), step["sql"])
        except mssql_python.OperationalError as error:
            return "cancelled" if "timeout" in str(error).lower() else str(error)
        finally:
            self.connection.timeout = 0
        return "not cancelled"


def _pinned(changed: dict[str, Any]) -> str:
    """What the process trusts stays as it was first; another file can only be given as the certificate that must be met."""
    return f";ServerCertificate={changed['ca']}" if "ca" in changed else ""


if __name__ == "__main__":
    mssql_python.pooling(enabled=False)  # a connection of the pool would not ask who the server is
    main(Microsoft)
