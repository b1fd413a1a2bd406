"""`python -m dstream`: the same as the command `dstream`."""

from __future__ import annotations

from dstream.cli import main

main()
