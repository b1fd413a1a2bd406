"""The offsets of two tables that one ingester has claimed, and a person's statements."""

from __future__ import annotations

from tests.contracts.history.conftest import offsets, run

__all__ = ["offsets", "run"]
