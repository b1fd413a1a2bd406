"""What a test of a contract says of itself: the item it belongs to and how sure we are that the real service does the same.

`documented`: a page of Microsoft's, a KB article, a specification or the source of an SDK of its own says so. `measured`:
somebody saw the real service do it, and wrote it down. `unverified`: neither; the emulator decided, and the real service's
answer is news, not a failure. The source of each test stands in its docstring, after "Source:".
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import pytest

Label = Literal["documented", "measured", "unverified"]
LABELS: tuple[Label, ...] = get_args(Label)
"""From the surest to the least sure."""

BEGIN, END = "<!-- items: begin -->", "<!-- items: end -->"
"""Around the table of a contract's page."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One test of an item: its function's name, what it promises (the docstring's text) and where that is from."""

    number: int
    label: Label
    test: str
    promise: str
    source: str


@dataclass(frozen=True, slots=True)
class Contract:
    """A numbered list of behaviours with their titles; `mark` is the name of the marker on its tests."""

    title: str
    mark: str
    items: Mapping[int, str]

    def item(self, number: int, label: Label) -> pytest.MarkDecorator:
        """Marks a test as one of item `number`. The docstring ends with "Source: ..."."""
        if number not in self.items or label not in LABELS:
            raise ValueError(f"no item {number} or no label {label!r}")
        mark: pytest.MarkDecorator = getattr(pytest.mark, self.mark)
        return mark(number, label)

    def claim_of(self, test: Callable[..., object]) -> Claim | None:
        """What a test function claims; None when it is not one of the contract's. Raises ValueError without a source."""
        mark = next((mark for mark in getattr(test, "pytestmark", ()) if mark.name == self.mark), None)
        if mark is None:
            return None
        number, label = mark.args
        promise, found, source = " ".join((test.__doc__ or "").split()).rpartition("Source:")
        if not found or not source.strip():
            raise ValueError(f"{test.__name__} does not say its source")
        return Claim(number, label, test.__name__, promise.strip(), source.strip().rstrip("."))

    def claims(self, folder: Path, package: str) -> list[Claim]:
        """Of every test of a folder, in the order of the items. Raises ValueError for one without a source."""
        found = []
        for path in sorted(folder.glob("test_*.py")):
            module = importlib.import_module(f"{package}.{path.stem}")
            found += [
                claim
                for value in vars(module).values()
                if callable(value) and (claim := self.claim_of(value)) is not None
            ]
        return sorted(found, key=lambda claim: claim.number)

    def table(self, claims: Sequence[Claim]) -> str:
        """A row for each item: its title, how many tests under which label, and where they are from."""
        lines = ["| item | what | tests by label | sources |", "|---|---|---|---|"]
        for number, title in self.items.items():
            mine = [claim for claim in claims if claim.number == number]
            counts = {label: sum(claim.label == label for claim in mine) for label in LABELS}
            labels = ", ".join(f"{count} {label}" for label, count in counts.items() if count)
            sources = (
                "; ".join(dict.fromkeys(source for claim in mine for source in claim.source.split("; ")))
                .replace("|", "\\|")
                .replace("<", "&lt;")
            )
            lines.append(f"| {number} | {title} | {labels} | {sources} |")
        return "\n".join(lines)


def strongest(claims: Iterable[Claim]) -> dict[int, Label]:
    """The label of each item: the surest of its tests'."""
    best: dict[int, Label] = {}
    for claim in claims:
        known = best.get(claim.number)
        if known is None or LABELS.index(claim.label) < LABELS.index(known):
            best[claim.number] = claim.label
    return best


def written(page: str) -> str:
    """The table that a page has."""
    _, _, rest = page.partition(BEGIN)
    return rest.partition(END)[0].strip()


def rewrite(page: Path, table: str) -> None:
    """Put the table in the place of the one that the page has."""
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
