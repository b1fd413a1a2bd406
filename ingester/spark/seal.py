"""Seals what Spark carries between the driver and its workers: a bundle, its results, and what both say to each other meanwhile.

These hold keys of rows, and salts of masks. PySpark writes a task's data to a temporary file, and results pass through the JVM and the files
of its block manager. So Spark gets bytes that only this ingester's own processes can read. Nothing that was sealed with another key is
loaded (docs/decisions/0030-sealed-tasks.md).
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from common.errors import TransientError

VARIABLE = "DSTREAM_SEAL"
"""The environment variable with the key, where all workers run on the driver's machine. On a cluster the key travels with each task, which
Spark encrypts (ingester/spark/conf.py)."""


class Unsealed(TransientError):
    """It was not sealed with this key, or was changed since."""


class Seal:
    """Shows its key nowhere. Thread-safe."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    @staticmethod
    def new_key() -> bytes:
        return Fernet.generate_key()

    def closed(self, what: object) -> bytes:
        return self._fernet.encrypt(pickle.dumps(what))

    def opened(self, sealed: bytes) -> Any:
        """Raises Unsealed."""
        try:
            return pickle.loads(self._fernet.decrypt(sealed))
        except InvalidToken:
            raise Unsealed(
                "opening what Spark carried: it was sealed with another key, or was changed on its way"
            ) from None


def seal_of_environment() -> Seal:
    """Raises RuntimeError in a process that this ingester did not start."""
    key = os.environ.get(VARIABLE)
    if key is None:
        raise RuntimeError(f"{VARIABLE} is not in the worker's environment: this ingester did not start it")
    return Seal(key.encode())
