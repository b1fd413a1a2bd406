"""How fast a backlog goes through a namespace of 1,000 credits a second, beside what its credits allow, and how often it is refused.

    .venv/bin/python -m bench.throttled [--changes 16000] [--workers 2] [--credits 1000]

Slices of several tables, the router as a process and a subscriber, as in the tests (tests/worlds/throttled.py), on the emulator, which counts
credits and refusals as Standard does. The last line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.worlds.throttled import run

PACKS: tuple[int | str, ...] = (1, 100, "max")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=16_000, help="of all tables together")
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2, help="processes of the router")
    parser.add_argument("--credits", type=int, default=1_000, help="a second")
    chosen = parser.parse_args()
    figures: dict[str, dict[str, float]] = {}
    for pack in PACKS:
        with tempfile.TemporaryDirectory() as made:
            done = run(
                Path(made),
                chosen.changes,
                pack=pack,
                tables=chosen.tables,
                limit=chosen.credits,
                workers=chosen.workers,
            )
        figures[str(pack)] = done.figures()
        print(f"pack = {pack}")
        for what, value in figures[str(pack)].items():
            print(f"    {what:<36}{value:>12.3f}")
    print(json.dumps({name: {what: round(value, 3) for what, value in each.items()} for name, each in figures.items()}))


if __name__ == "__main__":
    main()
