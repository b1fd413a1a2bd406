"""Sizes of the product: what one can read in one sitting, and a folder that one can take in at a glance. The emulators are not held to them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("dstream", "desk", "ingester", "router", "common")
LINES_OF_A_MODULE, LINES_OF_A_FUNCTION, MODULES_OF_A_FOLDER = 400, 50, 20


def modules() -> list[Path]:
    return [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]


def _functions(module: Path) -> Iterator[tuple[str, int]]:
    """Each function with its lines, without decorators."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_no_module_is_longer_than_the_limit() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert len(lines) > 100
    assert {name: count for name, count in lines.items() if count > LINES_OF_A_MODULE} == {}


@pytest.mark.parametrize("package", PRODUCT)
def test_no_function_is_longer_than_the_limit(package: str) -> None:
    found = [(path, *each) for path in sorted((ROOT / package).rglob("*.py")) for each in _functions(path)]
    assert found
    assert [(str(path), name, lines) for path, name, lines in found if lines > LINES_OF_A_FUNCTION] == []


def test_no_folder_has_more_modules_than_the_limit() -> None:
    """`__init__.py` is none."""
    folders = Counter(str(path.parent.relative_to(ROOT)) for path in modules() if path.name != "__init__.py")
    assert {"common", "ingester/driver"} <= folders.keys()
    assert {folder: count for folder, count in folders.items() if count > MODULES_OF_A_FOLDER} == {}
