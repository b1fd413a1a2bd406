"""`make bench`: the parts one after the other, and one table of their figures beside the last run that was kept.

    .venv/bin/python -m bench [--parts ours,start] [--quick] [--keep]

Each part is a program of its own, whose last line is JSON; its other lines go to standard error while it runs. About half an hour on two cores,
`--quick` five minutes with smaller numbers, which cannot be compared with a full run's. `--keep` writes the run to docs/measurements as the last one;
figures of parts that did not run stay, with their own date and commit; a short run and a full one are not mixed. A part that fails is in the
table; then the exit status is 1 and nothing is kept. A part that takes too long ends with all that it has started. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from bench import archive, sessions
from bench.table import kept
from bench.table.figures import LEGEND, Failed, Figure, text
from bench.table.parts import PARTS, Found, Part, chosen

_ROOT = Path(__file__).parents[1]
_FAREWELL = 10.0
_INTERRUPTED = 130


def ran(part: Part, *, quick: bool) -> list[Figure | Failed]:
    """The figures of a part, or why it has none."""
    print(f"\n== {part.name}", file=sys.stderr, flush=True)
    begun = time.monotonic()
    try:
        found = last_line(part.command(quick=quick), part.seconds)
        figures: list[Figure | Failed] = list(part.figures(found, os.cpu_count() or 1))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        return [Failed(part.name, f"{error}" if isinstance(error, RuntimeError) else f"no such figure: {error!r}")]
    print(f"== {part.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return figures


def last_line(arguments: list[str], seconds: float) -> Found:
    """The JSON at the end of what a program prints. Raises RuntimeError when it fails or prints none."""
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        passing_on = threading.Thread(target=pass_on, args=(process.stderr, said), daemon=True)
        passing_on.start()
        timer = threading.Timer(seconds, sessions.end, (process.pid,))
        timer.start()
        assert process.stdout is not None
        try:
            lines = process.stdout.read().strip().splitlines()
            process.wait()
        except KeyboardInterrupt:  # which a terminal does not send to another session
            timer.cancel()
            sessions.end(process.pid)
            raise
        passing_on.join(_FAREWELL)
        timed_out = not timer.is_alive()
        timer.cancel()
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    if timed_out:
        raise RuntimeError(f"not over after {seconds:.0f} s")
    if process.returncode != 0:
        raise RuntimeError(f"exit status {process.returncode}: {said[-1] if said else 'no word'}")
    try:
        found: Found = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise RuntimeError("its last line is not JSON") from None
    return found


def pass_on(lines: TextIO, said: list[str]) -> None:
    """Show them as they come, and remember the last one that says anything."""
    for line in lines:
        sys.stderr.write(line)
        if line.strip():
            said[:] = [line.strip()]


def commit() -> str:
    """The state of the code."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=(__doc__ or "").splitlines()[0],
        epilog="A run takes about half an hour. Run it on a machine that does nothing else.",
    )
    names = ",".join(part.name for part in PARTS)
    parser.add_argument("--parts", help=f"some of {names}; default: all")
    parser.add_argument("--quick", action="store_true", help="smaller numbers, five minutes")
    parser.add_argument(
        "--keep", action="store_true", help="write the run to docs/measurements, unless one of its parts fails"
    )
    asked = parser.parse_args()
    try:
        parts = chosen(asked.parts)
    except ValueError as error:
        parser.error(str(error))
    old = kept.last()
    if asked.keep and asked.parts and old is not None and old.quick != asked.quick:
        parser.error(
            "the kept run has another length: keep a run of all parts, or run these with or without --quick as it was"
        )
    archive.settle()
    before, code = os.getloadavg()[0], commit()
    found: list[Figure | Failed] = []
    interrupted = False
    try:
        for part in parts:
            found += ran(part, quick=asked.quick)
    except KeyboardInterrupt:
        interrupted = True
    figures = tuple(each for each in found if isinstance(each, Figure))
    load = (round(before, 1), round(os.getloadavg()[0], 1))
    run = kept.Run(datetime.now(UTC).date().isoformat(), code, os.cpu_count() or 1, load, asked.quick, figures)
    print(text(found, old.values if old else {}))
    print(f"\n{LEGEND}\nThis run: {kept.described(run)}\nThe last: {kept.described(old) if old else 'none was kept.'}")
    if interrupted:
        print("interrupted: the other parts have no figures, and nothing is kept", file=sys.stderr)
        return _INTERRUPTED
    failed = len(figures) < len(found)
    if asked.keep and not failed:
        kept.keep(kept.merged(run, old if asked.parts else None))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
