"""Blocks to settings: blocks of several types, older names, and what is said about mistakes in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, ValidationError

from common.config.bind import Bound, UnsetPolicy, bind, read
from common.config.by_type import ByType
from common.config.settings import Location, Secret, Settings


class Store(Settings):
    type: str
    name: str = "x"


class Disk(Store):
    type: Literal["disk"]
    folder: str


class Cloud(Store):
    type: Literal["cloud", "azure"] = "cloud"
    key: Secret | None = None
    account: str | None = None

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        if given.get("key") is not None and given.get("account") is not None:
            yield ("account",), "is given as well as key"


class Inner(Settings):
    older_names: ClassVar[Mapping[str, str]] = {"many": "count"}
    count: int = Field(default=1, ge=1)


MODELS: dict[str, type[Store]] = {"disk": Disk, "cloud": Cloud, "azure": Cloud}


class Root(Settings):
    must: Annotated[Store, ByType({"disk": Disk, "cloud": Cloud})]
    may: Annotated[Store, ByType({"cloud": Cloud, "azure": Cloud, "disk": Disk}, default="cloud")] = Cloud()
    inner: tuple[Inner, ...] = ()


def bound(tmp_path: Path, text: str, unset: UnsetPolicy = "refuse") -> Bound[Root]:
    path = tmp_path / "f.hcl"
    path.write_text("root {\n" + text + "\n}\n", encoding="utf-8")
    block = read(path, {}).block("root")
    assert block is not None
    return bind(block, Root, unset=unset)


def told(tmp_path: Path, text: str, unset: UnsetPolicy = "refuse") -> list[tuple[int, str]]:
    """Each problem with its line; the text begins on line 2."""
    found = bound(tmp_path, text, unset)
    assert found.value is None or not found.problems
    return sorted((problem.line, problem.text) for problem in found.problems)


DISK = 'must {\ntype = "disk"\nfolder = "f"\n}\n'


def test_the_type_chooses_the_model(tmp_path: Path) -> None:
    root = bound(tmp_path, DISK + 'may {\naccount = "a"\n}').value
    assert root is not None
    assert (root.must, root.may) == (Disk(type="disk", folder="f"), Cloud(account="a"))


def test_a_block_without_a_default_type_must_name_one(tmp_path: Path) -> None:
    assert told(tmp_path, 'must {\nfolder = "f"\n}') == [(2, 'root.must: key "type" is missing')]


def test_without_a_type_a_setting_that_no_type_has_is_told_too(tmp_path: Path) -> None:
    assert told(tmp_path, 'must {\ntyp = "disk"\nfolder = "f"\n}') == [
        (2, 'root.must: key "type" is missing'),
        (3, 'root.must: unknown key "typ" (did you mean "type"?)'),
    ]
    assert told(tmp_path, 'must {\ntype = "tape"\nfoldre = "f"\n}') == [
        (3, 'root.must.type must be one of "disk", "cloud"'),
        (4, 'root.must: unknown key "foldre" (did you mean "folder"?)'),
    ]


def test_a_type_that_does_not_exist_names_those_that_do_with_its_line(tmp_path: Path) -> None:
    expected = [(4, 'root.must.type must be one of "disk", "cloud"')]
    assert told(tmp_path, 'must {\nfolder = "f"\ntype = "tape"\n}') == expected
    assert told(tmp_path, 'must {\nfolder = "f"\ntype = 7\n}') == expected


def test_with_a_default_type_the_rest_of_the_block_is_checked_too(tmp_path: Path) -> None:
    assert told(tmp_path, DISK + 'may {\ntype = "tape"\nacount = "a"\n}') == [
        (7, 'root.may.type must be one of "cloud", "azure", "disk"'),
        (8, 'root.may: unknown key "acount" (did you mean "account"?)'),
    ]


@pytest.mark.parametrize(("text", "kind"), [("", "cloud"), ('type = "azure"', "azure")])
def test_a_setting_of_another_type_has_no_effect_and_is_remembered(tmp_path: Path, text: str, kind: str) -> None:
    root = bound(tmp_path, DISK + f'may {{\n{text}\naccount = "a"\nfolder = "{{{{ env "UNSET" }}}}"\n}}').value
    assert root is not None
    assert isinstance(root.may, Cloud)
    assert [(it.line, it.event, it.setting) for it in root.remarks] == [(9, "setting has no effect", "root.may.folder")]
    assert f'a setting of type "disk", and the type here is "{kind}"' in root.remarks[0].hint


def test_each_type_is_named_once_where_names_share_a_model(tmp_path: Path) -> None:
    root = bound(tmp_path, DISK.replace("}", 'key = "k"\n}')).value
    assert root is not None
    assert [it.hint.partition(";")[0] for it in root.remarks] == [
        'it is a setting of type "cloud", and the type here is "disk"'
    ]
    assert ByType({"cloud": Cloud, "azure": Cloud, "disk": Disk}).types_with("key") == ["cloud"]
    assert ByType(MODELS).types_with("name") == ["disk", "cloud"]


def test_a_mistake_inside_a_typed_block_has_its_own_name_and_line(tmp_path: Path) -> None:
    assert told(tmp_path, DISK + "may {\naccount = 7\n}") == [
        (7, "root.may.account must be text in double quotes"),
    ]


@pytest.mark.parametrize("unset", ["refuse", "hold", "ignore"])
def test_a_type_from_an_unset_variable_is_that_problem_alone(tmp_path: Path, unset: UnsetPolicy) -> None:
    problems = told(tmp_path, 'must {\ntype = "{{ env "KIND" }}"\n}', unset)
    variable = (3, "root.must.type: environment variable KIND is not set")
    assert set(problems) == (set() if unset == "ignore" else {variable})


def test_settings_that_contradict_each_other_are_told_even_when_others_are_wrong(tmp_path: Path) -> None:
    assert told(tmp_path, DISK + 'may {\nkey = "hunter2"\naccount = "a"\nname = 7\n}') == [
        (8, "root.may.account is given as well as key"),
        (9, "root.may.name must be text in double quotes"),
    ]
    with pytest.raises(ValidationError, match="account is given as well as key") as refused:
        Cloud.model_validate({"key": "hunter2", "account": "a"})
    assert "hunter2" not in str(refused.value)


def test_older_names_work_in_inner_blocks_and_are_remembered(tmp_path: Path) -> None:
    root = bound(tmp_path, DISK + "inner {\nmany = 2\n}\ninner {\ncount = 3\n}").value
    assert root is not None
    assert [inner.count for inner in root.inner] == [2, 3]
    assert [(it.line, it.setting, it.hint) for it in root.remarks] == [(7, "root.inner.many", "write root.inner.count")]


def test_a_complaint_about_an_older_name_uses_it_and_a_typo_of_it_leads_to_the_present_one(tmp_path: Path) -> None:
    assert told(tmp_path, DISK + "inner {\nmany = 0\n}") == [(7, "root.inner.many must be at least 1")]
    assert told(tmp_path, DISK + "inner {\nmanny = 1\n}") == [
        (7, 'root.inner: unknown key "manny" (did you mean "count"?)')
    ]


def test_an_older_name_that_is_given_twice_is_given_twice(tmp_path: Path) -> None:
    assert told(tmp_path, DISK + "inner {\nmany = 1\nmany = 2\n}") == [(8, '"many" is given twice (first on line 7)')]
