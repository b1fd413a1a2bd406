"""The table of docs/sql-server-contract.md, made from the tests' own labels: `python -m tests.contracts.sqlserver.contract.overview`.

Writes that table and nothing else of the page. test_the_suite.py fails while the page has another one.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from tests.contracts.sqlserver.contract.labels import ITEMS, LABELS, Claim, claim_of

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs" / "sql-server-contract.md"
BEGIN, END = "<!-- items: begin -->", "<!-- items: end -->"


def claims() -> list[Claim]:
    """Of every test of this folder, in the order of the items. Raises ValueError for one without a source."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        found += [
            claim for value in vars(module).values() if callable(value) and (claim := claim_of(value)) is not None
        ]
    return sorted(found, key=lambda claim: claim.number)


def table(of: Sequence[Claim]) -> str:
    """A row for each item: its title, how many tests under which label, and where they are from."""
    lines = ["| item | what | tests by label | sources |", "|---|---|---|---|"]
    for number, title in ITEMS.items():
        mine = [claim for claim in of if claim.number == number]
        counts = {label: sum(claim.label == label for claim in mine) for label in LABELS}
        labels = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
        sources = (
            "; ".join(dict.fromkeys(source for claim in mine for source in claim.source.split("; ")))
            .replace("|", "\\|")
            .replace("<", "&lt;")
        )
        lines.append(f"| {number} | {title} | {labels} | {sources} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """The table that a page has."""
    _, _, rest = page.partition(BEGIN)
    return rest.partition(END)[0].strip()


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table(claims())}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
