"""The pages: links between files lead somewhere, anchors too; prose is at most 120 columns of plain English; decisions are numbered and dated."""

from __future__ import annotations

import fnmatch
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "deploy").glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = ("dstream", "desk", "ingester", "router", "common", "emulators", "tests", "bench")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))

_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n{2,}|^ *(?:[-*]|\d+\.) +|\*\*", re.MULTILINE)
_OPENS = re.compile(r"(?:Of|What|Whoever)\b(?!.*\?$)", re.DOTALL)
_UNUSUAL = re.compile(r"\b(?:anew|mended|whoever|SPEC \d+)\b", re.IGNORECASE)
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


def prose(page: Path) -> list[str]:
    """The lines that are neither code nor part of a table, a heading or a comment."""
    lines = _CODE.sub("", page.read_text(encoding="utf-8")).splitlines()
    return ["" if line.lstrip().startswith(("|", "#", "<!--")) else line for line in lines]


def too_long(page: Path) -> list[str]:
    """A single link or piece of code may be longer."""
    return [line for line in prose(page) if len(line) > 120 and " " in line.strip()]


def foreign(page: Path) -> list[str]:
    """Sentences that begin as no native begins them, and words that no native uses."""
    text = "\n".join(prose(page)).lstrip()
    begun = [sentence for sentence in _SENTENCES.split(text) if _OPENS.match(sentence)]
    return begun + _UNUSUAL.findall(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_has_at_most_120_columns(page: Path) -> None:
    assert too_long(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_is_plain_english(page: Path) -> None:
    assert foreign(page) == []


def test_long_and_foreign_prose_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    long = "word " * 30
    page.write_text(
        f"# What it is\n\n{long}\n\n| {long} |\n\n```\n{long}\n```\n\nOf it, this. What for?\n**What** is not: mended.\n"
    )
    assert too_long(page) == [long]
    assert foreign(page) == ["Of it, this.", "What", "mended"]


def test_pages_that_code_names_exist() -> None:
    sources = [path for folder in CODE for path in (ROOT / folder).rglob("*.py") if ".cache" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, ROOT / "pyproject.toml", ROOT / "Makefile")]
    named = {name for text in texts for name in re.findall(r"\bdocs/[\w./-]+\.md\b", text)}
    assert len(named) > 10
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
    assert [found for text in texts for found in re.findall(r"\bSPEC \d+", text)] == []


def test_tests_that_pages_name_exist() -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if ".cache" not in path.parts
    ]
    known = {name for text in texts for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)}
    named = {name for page in PAGES for name in re.findall(r"[`:](test_\w+)`", page.read_text(encoding="utf-8"))}
    assert len(named) > 15
    assert sorted(named - known) == []


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


def test_the_index_lists_each_decision_with_its_date_and_status() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for path in DECISIONS:
        title, date, status, *_ = path.read_text(encoding="utf-8").split("\n\n")
        cells = (f"[{path.name[:4]}]({path.name})", title[2:], date[6:], status[8:])
        assert f"| {' | '.join(cells)} |" in index


def test_the_index_lists_each_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if ROOT / "docs" in page.parents]
    elsewhere = ("decisions/0", "outputs/", "measurements/")
    listed = [page for page in pages if not page.startswith(elsewhere) and page != "README.md"]
    assert [page for page in listed if f"]({page})" not in index] == []
    for folder in ("outputs/", "measurements/"):
        own = (ROOT / "docs" / folder / "README.md").read_text(encoding="utf-8")
        inside = [page.removeprefix(folder) for page in pages if page.startswith(folder)]
        assert [page for page in inside if page != "README.md" and f"]({page})" not in own] == []


def test_modules_that_pages_name_exist() -> None:
    """By the end of their path: a table about a folder names them from there. NAME stands for a module that a reader is to write."""
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    lost = []
    for page in PAGES:
        named = re.findall(r"`([\w./*-]+\.py)(?:::\w+)?`", page.read_text(encoding="utf-8"))
        lost += [
            f"{page.stem}: {name}" for name in named if "NAME" not in name and not fnmatch.filter(modules, f"*/{name}")
        ]
    assert lost == []


@pytest.mark.parametrize(
    "folder",
    ["dstream", "desk/**", "ingester", "ingester/driver", "ingester/task", "ingester/watch", "router/**", "common"],
)
def test_the_architecture_names_each_module(folder: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    modules = {path.name for path in ROOT.glob(f"{folder}/*.py")} - {"__init__.py", "__main__.py"}
    assert modules
    assert sorted(name for name in modules if name not in page) == []
