"""Writes the description of the API: `python -m desk.console.http.describe api/openapi.json`. A test holds the copy equal to the code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from desk.console.http.app import described_app


def description() -> str:
    return json.dumps(described_app().openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(description(), encoding="utf-8")
