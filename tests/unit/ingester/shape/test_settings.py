"""The `shape` block and the same settings of an override: what holds for a table, what is refused and where, and that no salt shows."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.cel import filters
from common.config.bind import read
from common.config.values import complain
from ingester.change import Operation
from ingester.settings import from_document
from ingester.shape.mask import Mask
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from tests.unit.ingester.test_settings import complaints, load, source

SALT = "CzQMA0cB5K"


def override(text: str, table: str = "Persons") -> str:
    return f'  tables_overrides {{\n    overrides {{\n      table_name = "{table}"\n{text}\n    }}\n  }}\n'


def shape(tmp_path: Path, usual: str, own: str = "", environ: dict[str, str] | None = None) -> TableShape:
    more = (f"  shape {{\n{usual}\n  }}\n" if usual else "") + (override(own) if own else "")
    return load(tmp_path, source(more), environ).schedule[0].shape


def test_without_settings_a_table_is_sent_as_captured(tmp_path: Path) -> None:
    assert shape(tmp_path, "") == AS_CAPTURED
    assert shape(tmp_path, "", 'poll_interval = "1s"') == AS_CAPTURED


def test_a_table_has_its_own_settings_and_else_the_defaults(tmp_path: Path) -> None:
    usual = (
        'exclude_columns = ["Audit"]\nskip_operations = ["Delete"]\nskip_unchanged = true\nmask { Email = "redact" }'
    )
    assert shape(tmp_path, usual, 'mask = { "Last Name" = "truncate:4" }') == TableShape(
        excluded=("Audit",),
        masks=(("Email", Mask("redact")), ("Last Name", Mask("truncate", length=4))),
        skip_operations=(Operation.DELETE,),
        skip_unchanged=True,
        shared=frozenset({"Audit", "Email"}),
    )
    found = shape(tmp_path, usual, 'columns = ["Id"]\nskip_operations = []\nskip_unchanged = false')
    assert (found.columns, found.excluded, found.skip_operations, found.skip_unchanged) == (
        ("Id",),
        ("Audit",),
        (),
        False,
    )


def test_a_trace_column_is_that_of_all_tables_or_the_tables_own_or_none(tmp_path: Path) -> None:
    usual = 'trace_column = "Traceparent"'
    assert shape(tmp_path, usual).trace_column == "Traceparent"
    assert shape(tmp_path, usual, 'trace_column = "Other"').trace_column == "Other"
    assert shape(tmp_path, usual, 'trace_column = ""') == AS_CAPTURED


def test_what_all_tables_leave_out_only_a_tables_own_columns_bring_back(tmp_path: Path) -> None:
    usual = 'columns = ["Id", "Name", "Ssn"]'
    assert shape(tmp_path, 'exclude_columns = ["Ssn"]', 'exclude_columns = ["Audit"]').excluded == ("Ssn", "Audit")
    assert shape(tmp_path, 'exclude_columns = ["Ssn"]', "exclude_columns = []").excluded == ("Ssn",)
    assert shape(tmp_path, 'exclude_columns = ["Ssn"]', 'columns = ["Id", "SSN"]').excluded == ()
    found = shape(tmp_path, usual, 'exclude_columns = ["Ssn"]')
    assert (found.columns, found.excluded) == (("Id", "Name", "Ssn"), ("Ssn",))


def test_a_filter_of_a_table_takes_the_place_of_the_default(tmp_path: Path) -> None:
    usual = 'filter = "data.ID > 0"'
    assert shape(tmp_path, usual).filter == "data.ID > 0"
    assert shape(tmp_path, usual, 'filter = "true"').filter == "true"


def test_of_two_masks_of_a_column_the_tables_own_is_the_last(tmp_path: Path) -> None:
    found = shape(tmp_path, 'mask { Email = "redact" }', 'mask { Email = "null" }')
    assert dict(found.masks)["Email"] == Mask("null")
    assert found.shared == frozenset()


def test_a_salt_comes_from_the_environment_and_shows_nowhere(tmp_path: Path) -> None:
    text = source('  shape {\n    mask { Email = "hash:SHA-256:{{ env "SALT" }}" }\n  }')
    settings = load(tmp_path, text, {"SALT": SALT})
    [(_, mask)] = settings.schedule[0].shape.masks
    assert (mask.kind, mask.algorithm, mask.salt) == ("hash", "SHA-256", SALT)
    assert SALT not in repr(settings) + str(settings) + repr(settings.schedule) + repr(mask)
    assert pickle.loads(pickle.dumps(settings.schedule[0].shape)) == settings.schedule[0].shape


def test_a_salt_that_is_not_set_is_named_with_its_line_or_held(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text(source('  shape {\n    mask { Email = "hash:SHA-256:{{ env "SALT" }}" }\n  }'))
    [problem] = from_document(read(path, {})).problems
    assert (problem.line, problem.text) == (14, "ingester.shape.mask.Email: environment variable SALT is not set")
    held = from_document(read(path, {}), unset="hold").value
    assert held is not None
    [(_, mask)] = held.schedule[0].shape.masks
    assert (mask.kind, mask.unset and mask.unset.variable) == ("hash", "SALT")
    assert from_document(read(path, {}), unset="ignore").problems == []


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ('columns = ["Id"]\nexclude_columns = ["A"]', 15, "shape.exclude_columns is given together with columns"),
        ('mask { Email = "stars" }', 14, 'shape.mask.Email is not a mask: write "hash:SHA-256:SALT", "redact", "truncate:4" or "null"'),
        ('mask { Email = "hash:SHA256:x" }', 14, 'shape.mask.Email has an unknown algorithm (did you mean "SHA-256"?)'),
        ('mask { Email = "hash:SHA-256:" }', 14, "shape.mask.Email has no salt: anyone finds the values behind hashes"),
        ('mask { Email = "hash:SHA-256" }', 14, "shape.mask.Email has no salt"),
        ('mask { Email = "truncate:0" }', 14, "shape.mask.Email needs how many characters are left"),
        ('mask { Email = "truncate:few" }', 14, "shape.mask.Email needs how many characters are left"),
        ("mask { Email = 4 }", 14, "shape.mask.Email must be text in double quotes"),
        ('mask {\n  Email {\n  }\n}', 15, "shape.mask.Email is a setting, not a block"),
        ('mask {\n  Email = "null"\n  Email = "redact"\n}', 16, '"Email" is given twice (first on line 15)'),
        ('mask {\n  Email = "null"\n  EMAIL = "redact"\n}', 16, 'shape.mask.EMAIL has "EMAIL" twice, first as "Email"'),
        ('columns = ["Id", "ID"]', 14, 'shape.columns has "ID" twice, first as "Id": names match without case'),
        ('mask = { "" = "null" }', 14, "shape.mask has a mask without a column"),
        ("columns = []", 14, "shape.columns is empty: name the columns, or leave it out for all"),
        ('columns = ["Id", ""]', 14, "shape.columns is empty: write a column's name"),
        ('skip_operations = ["delete"]', 14, '"Insert", "Update", "Delete" (did you mean "Delete"?)'),
        ('skip_operations = ["Delete", "Delete"]', 14, 'shape.skip_operations has "Delete" twice'),
        ('exclude_columns = ["Email"]\nmask { email = "null" }', 15, "shape.mask.email masks a column that exclude_columns leaves out"),
        ('columns = ["Id"]\nmask { Email = "null" }', 15, "shape.mask.Email masks a column that columns leaves out"),
        ('on_filter_error = "skip"', 14, '"fail", "dead_letter"'),
        ('filter = "data.ID ="', 14, "shape.filter "),
        ('filter = "before.ID == 4"', 14, "shape.filter uses before, which no change has while before_images is off"),
        ("mask = 4", 14, "shape.mask must be a map: { key = value }"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    [(at, found)] = complaints(tmp_path, source(f"  shape {{\n{text}\n  }}"))
    assert told in found
    assert at == line
    own = complaints(tmp_path, source(override(text)))
    assert [told.removeprefix("shape.").partition(" (first")[0] in found for _, found in own] == [True]


def test_a_mask_of_a_table_for_a_column_that_the_defaults_leave_out_is_refused(tmp_path: Path) -> None:
    usual = '  shape {\n    exclude_columns = ["Email"]\n  }\n'
    [(_, told)] = complaints(tmp_path, source(usual + override('mask { Email = "null" }')))
    assert told == (
        "ingester.tables_overrides.overrides.mask.Email masks a column that exclude_columns leaves out: remove one of them"
    )
    assert complaints(tmp_path, source(usual + override('mask { Email = "null" }\ncolumns = ["ID", "Email"]'))) == []


def test_no_complaint_shows_a_salt(tmp_path: Path) -> None:
    for text in (f"hash:MD6:{SALT}", f"hush:MD5:{SALT}", f"hash {SALT}", f"truncate:{SALT}"):
        told = complaints(tmp_path, source(f'  shape {{\n    mask {{ Email = "{text}" }}\n  }}'))
        assert told
        assert SALT not in str(told)


def test_a_mistake_in_a_filter_is_told_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "dstream.hcl"
    path.write_text(source('  shape {\n    filter = "data.A == \\"a\\" && Status == 1"\n  }\n'), encoding="utf-8")
    [told] = complain(str(path), from_document(read(path, {})).problems).problems
    assert told == (
        f"{path}:14:34: ingester.shape.filter is not a CEL expression: unknown variable Status: a filter knows data, before and metadata, "
        "so a column is data.Status"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data.x == '@' && Status", "is not a CEL expression"),
        ("data.x.matches('@')", "has a pattern that is not a regular expression"),
        ("metadata.@ == 1", "asks for metadata that no change has"),
        ("@", "is not a CEL expression"),
    ],
)
@pytest.mark.parametrize("salt", [f"{SALT}'(", f"{SALT}(", SALT, f'{SALT}"\\'])
def test_a_mistake_in_a_filter_shows_no_value_of_the_environment(
    tmp_path: Path, text: str, told: str, salt: str
) -> None:
    usual = '  shape {\n    filter = "' + text.replace("@", '{{ env "SALT" }}') + '"\n  }\n'
    found = complaints(tmp_path, source(usual), {"SALT": salt})
    assert SALT not in str(found)
    if salt == SALT and "matches" not in text:
        assert told in str(found)


@contextmanager
def without_the_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    filters._environment.cache_clear()
    filters.compile_filter.cache_clear()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "cel_expr_python", None)
        yield
    filters._environment.cache_clear()


def test_a_router_without_the_library_reads_a_file_with_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '  shape {\n    filter = "before.A =="\n  }\n'
    with without_the_library(monkeypatch):
        path = tmp_path / "dstream.hcl"
        path.write_text(source(text), encoding="utf-8")
        for unset in ("ignore", "hold"):
            assert from_document(read(path, {}), unset=unset).problems == []
    assert len(complaints(tmp_path, source(text))) == 1


def test_an_ingester_without_the_library_is_refused_where_a_filter_stands_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = 'shape {\n    filter = "data.A == 1"\n  }\n', override('filter = "data.B == 1"')
    with without_the_library(monkeypatch):
        found = complaints(tmp_path, source("  " + one + other))
        assert complaints(tmp_path, source("")) == []
    lacks = (
        "filter needs the Python package cel_expr_python, which is not installed: "
        "pip install 'dstream-cdc[ingester]' for an ingester, 'dstream-cdc[routes]' for a router"
    )
    assert [told for _, told in found] == [f"ingester.shape.{lacks}", f"ingester.tables_overrides.overrides.{lacks}"]
    assert found[0][0] != found[1][0]
