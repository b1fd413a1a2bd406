"""`dstream check` of the port for health and metrics: whether a stage could listen there. Opens the port for a moment and closes it."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException

from common.check import Finding, ok
from common.errors import PermanentError
from common.observability.health import SERVER_NAME, HealthEndpoint
from common.observability.health_settings import HealthSettings

_ANSWER_SECONDS = 2.0
"""To wait for an answer of the program that has the port."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def port_findings(settings: HealthSettings | None) -> Iterator[Finding]:
    """None without a `health` block. Raises PermanentError as a start would: another program has the port, or the address is not this machine's."""
    if settings is None:
        return
    try:
        HealthEndpoint(settings, alive=lambda: None, ready=lambda: None, samples=lambda: ()).close()
    except PermanentError:
        if not _is_ours(settings):
            raise
        yield ok("health", f"port {settings.port} is in use by a running DStream service")
        return
    yield ok("health", f"port {settings.port} of {settings.host} is free")


def _is_ours(settings: HealthSettings) -> bool:
    connection = HTTPConnection(_ANY_ADDRESS.get(settings.host, settings.host), settings.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return (connection.getresponse().getheader("Server") or "").strip() == SERVER_NAME
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
