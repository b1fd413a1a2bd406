"""Dropping a database that clients have just left: their sessions are in it for a moment longer (error 3702), here as on a real server."""

from __future__ import annotations

import time
from typing import Any

import pymssql

PATIENCE = 30.0
_IN_USE = 3702


def drop(cursor: Any, database: str) -> None:
    """Raises pymssql.Error when it cannot be dropped, or somebody stays in it for long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            cursor.execute(f"DROP DATABASE {database}")
            return
        except pymssql.Error as error:
            if error.args[0] != _IN_USE or time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
