"""Removes what an image does not need of a package: `python leave_out.py LIST FOLDER`.

A line of LIST is a pattern below FOLDER; `#` begins a comment. A pattern that matches nothing ends with an error, so that the list stays true
when the package changes. A file that no line names stays.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def leave_out(patterns: list[str], folder: Path) -> list[str]:
    """Remove what they match. Returns the patterns that match nothing."""
    idle = []
    for pattern in patterns:
        found = [*folder.glob(pattern)]
        if not found:
            idle.append(pattern)
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return idle


def patterns(text: str) -> list[str]:
    return [line.split("#")[0].strip() for line in text.splitlines() if line.split("#")[0].strip()]


if __name__ == "__main__":
    listed, place = sys.argv[1:]
    if idle := leave_out(patterns(Path(listed).read_text()), Path(place)):
        sys.exit(f"{listed}: nothing matches {', '.join(idle)}; remove the line, or name what has taken its place")
