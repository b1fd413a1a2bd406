"""Times as every document has them. Reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal


def written(at: datetime, to: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """In UTC, as ISO 8601 writes it, with Z."""
    return at.astimezone(UTC).isoformat(timespec=to).replace("+00:00", "Z")
