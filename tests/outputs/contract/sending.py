"""A process that sends with an output, and that its parent kills: `python -m tests.outputs.contract.sending`.

Standard input: pickles, first (Recipe, Stream), then a sequence of messages each. Standard output: a line of JSON for each send, when it has
returned or raised: the places that were accepted.
"""

from __future__ import annotations

import json
import pickle
import sys
from contextlib import suppress

import structlog

from tests.outputs.contract.delivery import Delivered, send_once


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    recipe, stream = pickle.load(sys.stdin.buffer)
    sender = recipe.output().sender(stream)
    with suppress(EOFError):
        while True:
            page = pickle.load(sys.stdin.buffer)
            accepted, _ = send_once(sender, page, Delivered())
            print(json.dumps(sorted(accepted)), flush=True)


if __name__ == "__main__":
    main()
