"""The pages lead to each other: every link between files is answered, anchors too, and decisions are numbered and dated."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = ("dstream", "ingester", "router", "common", "emulators", "tests", "bench")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))

_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, marks left out, spaces to hyphens."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path) -> list[str]:
    """Links to files of the repository that are not there, or have no such heading."""
    missing = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            missing.append(link)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n[1](#a-b-c) [2](#d) [3](page.md#a-b-c) [4](other.md) [5](https://example.com/#x)\n")
    assert broken(page) == ["#d", "other.md"]


def test_pages_that_code_names_exist() -> None:
    sources = [path for folder in CODE for path in (ROOT / folder).rglob("*.py") if ".cache" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, ROOT / "pyproject.toml", ROOT / "Makefile")]
    named = {name for text in texts for name in re.findall(r"\bdocs/[\w./-]+\.md\b", text)}
    assert len(named) > 10
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_dated_and_has_a_status(path: Path) -> None:
    head = path.read_text(encoding="utf-8").split("\n\n")[:3]
    assert head[0].startswith("# ")
    assert re.fullmatch(r"Date: \d{4}-\d{2}-\d{2}", head[1])
    assert re.fullmatch(r"Status: (in force|superseded by \[\d{4}\]\(.+\))", head[2])


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(DECISIONS) == len(
        [path for path in (ROOT / "docs" / "decisions").glob("*.md") if path.name != "README.md"]
    )
