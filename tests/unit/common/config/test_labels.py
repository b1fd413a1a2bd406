"""Blocks with labels: only where the model has them, each label once, and complaints by line and name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest

from common.config.bind import Bound, UnsetPolicy, bind, read
from common.config.blocks import UNLABELLED, FromLabel, Labelled
from common.config.by_type import ByType
from common.config.settings import Secret, Settings
from common.observability.logs import masked, register_secrets


class Store(Settings):
    type: str
    name: Annotated[str, FromLabel()] = UNLABELLED


class Disk(Store):
    type: Literal["disk"] = "disk"
    folder: str


class Cloud(Store):
    type: Literal["cloud"]
    key: Secret


Block = Annotated[Store, ByType({"disk": Disk, "cloud": Cloud}, default="disk")]


class Root(Settings):
    store: Block
    stores: Annotated[tuple[Block, ...], Labelled("store")] = ()
    plain: Annotated[tuple[Disk, ...], Labelled("volume")] = ()


def bound(tmp_path: Path, text: str, unset: UnsetPolicy = "refuse") -> Bound[Root]:
    path = tmp_path / "f.hcl"
    path.write_text(f'root {{\nstore {{ folder = "a" }}\n{text}\n}}\n', encoding="utf-8")
    block = read(path, {"KEY": "hunter2-hunter2"}).block("root")
    assert block is not None
    return bind(block, Root, unset=unset)


def told(tmp_path: Path, text: str) -> list[tuple[int, str]]:
    return [(problem.line, problem.text) for problem in bound(tmp_path, text).problems]


def test_blocks_with_labels_stand_beside_the_one_without(tmp_path: Path) -> None:
    text = 'store "far" {\n type = "cloud"\n key = {{ env "KEY" }}\n}\nstore "B-2_b" { folder = "b" }\nvolume "v" { folder = "c" }'
    found = bound(tmp_path, text).value
    assert found is not None
    assert (found.store.name, [each.name for each in found.stores]) == ("default", ["far", "B-2_b"])
    assert [type(each) for each in found.stores] == [Cloud, Disk]
    assert [(each.name, each.folder) for each in found.plain] == [("v", "c")]


def test_their_secrets_are_masked(tmp_path: Path) -> None:
    register_secrets(bound(tmp_path, 'store "far" {\n type = "cloud"\n key = {{ env "KEY" }}\n}').value)
    assert "hunter2" not in masked("the key is hunter2-hunter2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('store "a" { folder = "b" }\nstore "A" { folder = "b" }', (4, 'store "A" is given twice (first on line 3)')),
        (
            'store "default" { folder = "b" }',
            (3, '"default" is the name of the store block without a label: choose another'),
        ),
        (
            'store "a b" { folder = "b" }',
            (
                3,
                'store "a b": a label is 1 to 64 of the characters A-Z a-z 0-9 - _, and begins and ends with a letter or digit',
            ),
        ),
        ('store "a" { folder = 1 }', (3, "root.store.a.folder must be text in double quotes")),
        ('store "a" { }', (3, 'root.store.a: key "folder" is missing')),
        (
            'store "a" {\n folder = "b"\n foldr = 2\n}',
            (5, 'root.store.a: unknown key "foldr" (did you mean "folder"?)'),
        ),
        ('store "a" {\n type = "tape"\n}', (4, 'root.store.a.type must be one of "disk", "cloud"')),
        ('store "a" {\n folder = "b"\n name = "c"\n}', (5, 'root.store.a: unknown key "name"')),
        ("stores { }", (3, 'root: unknown block "stores" (did you mean "store"?)')),
        ('store { folder = "b" }', (3, '"store" is given twice (first on line 2)')),
        ('store "a" { inner "b" { } }', (3, 'block "inner" takes no label: write inner { ... }')),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, expected: tuple[int, str]) -> None:
    assert expected in told(tmp_path, text)


def test_a_block_that_takes_no_label_is_refused_with_one(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text('root "x" {\n}\n', encoding="utf-8")
    problems = read(path, {}).problems([("root",)])
    assert [(each.line, each.text) for each in problems] == [(1, 'block "root" takes no label: write root { ... }')]


def test_a_variable_that_is_not_set_is_named_with_the_label(tmp_path: Path) -> None:
    (problem,) = bound(tmp_path, 'store "far" {\n type = "cloud"\n key = {{ env "NOPE" }}\n}').problems
    assert (problem.line, problem.text) == (5, "root.store.far.key: environment variable NOPE is not set")


def test_where_only_blocks_with_labels_stand_the_default_one_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text('root {\nstore "far" { folder = "a" }\n}\n', encoding="utf-8")
    block = read(path, {}).block("root")
    assert block is not None
    [problem] = bind(block, Root, unset="refuse").problems
    assert problem.text == "root: the default store, a block `store` without a label, is missing"
