"""The manual has a row for each warning and error that a stage logs, and none for a line that nobody logs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from ingester.watch.capture_watch import _HEADROOM

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "fail.md").read_text(encoding="utf-8")
SECTIONS: Final = {
    "### Both stages": "",
    "### The ingester": "ingester",
    "### The router": "router",
    "### The console": "desk",
}
PASSED_ON: Final = "_tell_once"
"""A method that logs the text it is given."""

LOUD: Final = {"warning", "error", "critical", "exception"}

NO_LINES: Final = {
    "az login",
    "dstream offsets moves",
    "dstream status",
    "ingester starting",
    "provider starting",
    "router starting",
}
"""Quoted words that are no log event, or are put together of the stage's name and the rest."""

COMPUTED: Final = {
    "dstream/starting.py": 1,
    "ingester/driver/catalog_news.py": 3,
    "ingester/watch/capture_watch.py": 3,
    "router/takeover/follow.py": 1,
}
"""Calls whose text is no literal, by module. What they say has rows too, held to the code below or by hand: look at the page when this grows."""


def rows(heading: str) -> list[str]:
    """The lines that a section's table explains, as they are written there."""
    _, _, after = PAGE.partition(f"{heading}\n")
    section = re.split(r"^#", after, maxsplit=1, flags=re.MULTILINE)[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


@cache
def sources() -> Sequence[tuple[str, ast.Module]]:
    """Parsed once for all tests."""
    return [
        (name, ast.parse(path.read_text(encoding="utf-8")))
        for folder in ("common", "router", "ingester", "desk", "dstream")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith("dstream/demo/")
    ]


def is_loud(node: ast.expr, loud: set[str]) -> bool:
    """Whether a function is `log.warning` or the like, a choice of which one is, or a name for such a choice."""
    if isinstance(node, ast.IfExp):
        return is_loud(node.body, loud) or is_loud(node.orelse, loud)
    if isinstance(node, ast.Name):
        return node.id in loud
    if not isinstance(node, ast.Attribute) or node.attr not in LOUD | {PASSED_ON}:
        return False
    if node.attr == PASSED_ON:
        return True
    by = node.value.func if isinstance(node.value, ast.Call) else node.value
    return (isinstance(by, ast.Name) and by.id == "log") or (isinstance(by, ast.Attribute) and by.attr == "get_logger")


def loud_calls(module: ast.Module) -> Iterator[ast.Call]:
    given = [node for node in ast.walk(module) if isinstance(node, ast.Assign) and is_loud(node.value, set())]
    names = {target.id for node in given for target in node.targets if isinstance(target, ast.Name)}
    yield from (node for node in ast.walk(module) if isinstance(node, ast.Call) and is_loud(node.func, names))


@cache
def events() -> Sequence[tuple[str, str | None]]:
    """(module, text of the event) of each; None where it is computed."""
    found: list[tuple[str, str | None]] = []
    for name, module in sources():
        for call in loud_calls(module):
            event = call.args[0] if call.args else None
            literal = event.value if isinstance(event, ast.Constant) and isinstance(event.value, str) else None
            found.append((name, literal))
    return found


@pytest.mark.parametrize("stage", ["common", "desk", "dstream", "ingester", "router"])
def test_each_warning_and_error_has_a_row_with_its_stage(stage: str) -> None:
    own = [heading for heading, name in SECTIONS.items() if name in ("", stage) or stage in ("common", "dstream")]
    explained = {name for heading in own for name in rows(heading)}
    logged = {event for module, event in events() if event is not None and module.startswith(f"{stage}/")}
    assert logged
    assert sorted(logged - explained) == []


def test_lines_whose_text_is_computed_have_rows_too() -> None:
    computed = [module for module, event in events() if event is None]
    assert {module: computed.count(module) for module in computed} == COMPUTED
    assert set(_HEADROOM.values()) <= set(rows("### The ingester"))


@cache
def texts() -> str:
    return "\n".join(
        node.value
        for _, module in sources()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_no_row_is_about_a_line_that_nobody_logs() -> None:
    explained = [part.strip() for heading in SECTIONS for name in rows(heading) for part in name.split("...")]
    assert explained
    logged = texts()
    assert [part for part in explained if part not in logged] == []


@pytest.mark.parametrize("page", ["install", "run", "change", "fail", "cost"])
def test_lines_that_a_page_quotes_are_logged(page: str) -> None:
    """What stands between backticks and is nothing but words."""
    prose = re.sub(
        r"^ *```.*?^ *```", "", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), flags=re.M | re.S
    )
    quoted = {" ".join(words.split()) for words in re.findall(r"`([^`]+)`", prose)}
    lines = {words for words in quoted if re.fullmatch(r"[a-z][a-z',;: ]* [a-z',;: ]+", words)} - NO_LINES
    logged = texts()
    assert sorted(line for line in lines if line not in logged) == []
