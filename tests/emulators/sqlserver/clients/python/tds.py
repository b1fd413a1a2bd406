"""python-tds as a client: parameters by sp_executesql, transactions by transaction-manager requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import OpenSSL
import pytds

from tests.emulators.sqlserver.clients.python.program import Program, main, native

_CANCEL_AFTER = 0.3


class Tds(Program):
    """Its cancel is what a query gets that shows nothing for too long, or the same thread's wish between two rows."""

    error = (pytds.Error, OpenSSL.SSL.Error)

    def connect(self, **changed: Any) -> Any:
        wanted = self.server | changed
        return pytds.connect(
            wanted["host"],
            port=wanted["port"],
            user=wanted["user"],
            password=wanted["password"],
            database=wanted["database"],
            timeout=wanted.get("timeout"),
            autocommit=True,
            disable_connect_retry=True,
            **_encryption(wanted),
        )

    def number(self, error: Exception) -> int | None:
        return getattr(error, "number", None)

    def placeholder(self, position: int) -> str:
        return "%s"

    def parameters(self, types: Sequence[str], values: Sequence[object]) -> tuple[object, ...]:
        made = [native(type_, value) for type_, value in zip(types, values, strict=True)]
        return tuple(pytds.Binary(value) if isinstance(value, bytes) else value for value in made)

    def cancel(self, step: dict[str, Any]) -> object:
        self.connection.close()
        self.connection = self.connect(timeout=_CANCEL_AFTER)
        try:
            cursor = self.connection.cursor()
            cursor.execute(step["sql"])
        except pytds.TimeoutError:
            return "cancelled"
        cursor.fetchmany(10)
        cursor.cancel()  # between rows: a timeout in the middle of one would make it lose its place
        return "cancelled"


def _encryption(wanted: dict[str, Any]) -> dict[str, Any]:
    """It encrypts when it is given an authority to trust, and always verifies; `trust` leaves out the host's name."""
    if wanted["tls"] == "off":
        return {}
    only_login = wanted["tls"] == "login"
    return {"cafile": wanted["ca"], "validate_host": wanted["tls"] != "trust", "enc_login_only": only_login}


if __name__ == "__main__":
    main(Tds)
