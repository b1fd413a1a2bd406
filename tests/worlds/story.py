"""What a program of tests/worlds found, as it prints it: one JSON object in a line of its own. Spark's word may come before and after it."""

from __future__ import annotations

import json
from typing import Any


def story(said: str) -> dict[str, Any]:
    """The object in what the program printed. Raises AssertionError unless there is one."""
    found = [line for line in said.splitlines() if line.startswith("{")]
    assert len(found) == 1, said
    told: dict[str, Any] = json.loads(found[0])
    return told
