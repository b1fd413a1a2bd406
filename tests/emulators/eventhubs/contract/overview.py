"""The table of docs/emulators/event-hubs-contract.md, made from the tests' own labels: `python -m tests.emulators.eventhubs.contract.overview`.

Writes that table and nothing else of the page. test_the_suite.py fails while the page has another one.
"""

from __future__ import annotations

from pathlib import Path

from tests.contracts.claims import Claim, rewrite
from tests.emulators.eventhubs.contract.labels import CONTRACT

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs" / "emulators" / "event-hubs-contract.md"


def claims() -> list[Claim]:
    """Of every test of this folder, in the order of the items."""
    return CONTRACT.claims(HERE, "tests.emulators.eventhubs.contract")


if __name__ == "__main__":
    rewrite(PAGE, CONTRACT.table(claims()))
