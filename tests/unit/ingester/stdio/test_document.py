"""The host's document: complete or not, right or wrong, said with its path and without its values."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError
from common.names import TableName
from ingester.blocks.locks import AzureBlobLockSettings, LocalLockSettings
from ingester.stdio.document import MOST_BYTES, parsed, read_document
from ingester.stdio.settings import ProviderSettings, accepted_keys, settings_of
from tests.unit.ingester.shape.test_settings import without_the_library

GOLDEN = Path(__file__).parents[3] / "golden" / "provider"
SECRET = "Secret-Word-9"
CONFIG: dict[str, Any] = {
    "db_connection_string": f"server=localhost;user id=sa;password={SECRET};database=shop",
    "lock_config": {"type": "local"},
    "tables": ["Cars", "dbo.Persons"],
}


def problems(document: Any) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        settings_of(document)
    assert SECRET not in str(refused.value)
    return [problem.removeprefix("standard input: ") for problem in refused.value.problems]


def piped(*pieces: bytes, closes: bool) -> tuple[int, int]:
    reader, writer = os.pipe()
    for piece in pieces:
        os.write(writer, piece)
    if closes:
        os.close(writer)
    return reader, writer


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n  "])
def test_a_document_is_complete_with_its_last_brace_whether_the_host_closes_or_not(closes: bool, end: bytes) -> None:
    text = json.dumps({"a": 'a "brace } in \\ a text', "b": [{}]}).encode()
    reader, _ = piped(text + end, closes=closes)
    assert read_document(reader, seconds=20) == json.loads(text)


@pytest.mark.parametrize("behind", [b'\n{"command":"stop"}\n', b"}", b"]", b'"', b"\x00\xff"])
def test_what_is_behind_the_document_is_ignored_also_when_it_comes_with_it(behind: bytes) -> None:
    reader, _ = piped(b'\n{"tables": [1]}' + behind, closes=False)
    assert read_document(reader, seconds=20) == {"tables": [1]}


def test_a_mark_of_utf8_before_it_is_taken_off() -> None:
    assert parsed(b"\xef\xbb\xbf{}\n") == {}


@pytest.mark.parametrize(
    ("received", "said"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"a": 1', "is not JSON"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1} {"b": 2}', "is not JSON: Extra data (line 1, column 10)"),
        (b'{"a": 1, "a": 2}', 'key "a" is given twice'),
        (b"[1]", "$: must be an object"),
        (b"3", "$: must be an object"),
        ("{}".encode("utf-16"), "is not UTF-8"),
        (b"[" * 100 + b"]" * 100, "nested more than 32 levels deep"),
    ],
)
def test_what_is_no_document_is_said(received: bytes, said: str) -> None:
    with pytest.raises(ConfigurationError, match="standard input: ") as refused:
        parsed(received)
    assert said in str(refused.value)


def test_no_document_and_half_of_one_are_waited_for_so_long_and_no_longer() -> None:
    for pieces, said in (((), "no document came within 0 s"), ((b'{"a"',), "only 4 bytes of a document came")):
        reader, writer = piped(*pieces, closes=False)
        with pytest.raises(ConfigurationError, match=said):
            read_document(reader, seconds=0.05)
        os.close(writer)


def test_a_standard_input_that_is_closed_is_said() -> None:
    reader, _ = piped(closes=True)
    os.close(reader)
    with pytest.raises(ConfigurationError, match="standard input: cannot be read: Bad file descriptor"):
        read_document(reader)


def test_a_document_without_an_end_is_not_read_for_ever() -> None:
    with (
        Path("/dev/zero").open("rb") as endless,
        pytest.raises(ConfigurationError, match=f"more than {MOST_BYTES} bytes"),
    ):
        read_document(endless.fileno())


def test_the_originals_configurations_are_understood() -> None:
    found = settings_of(parsed((GOLDEN / "original-config.json").read_bytes()))
    assert isinstance(found.locks, AzureBlobLockSettings)
    assert found.tables == (TableName("dbo", "Cars"), TableName("dbo", "Persons"))
    assert found.interval_of(TableName("dbo", "Cars")) == "2s"
    assert (found.db.host, found.db.database, found.locks.container_name) == ("localhost", "TestDB", "cdc-locks")
    unlocked = settings_of(parsed((GOLDEN / "original-config-without-locks.json").read_bytes()))
    assert isinstance(unlocked.locks, LocalLockSettings)
    assert unlocked.remarks == ()


def test_a_command_holds_the_same_and_its_further_keys_are_the_hosts() -> None:
    assert settings_of({"command": "run", "config": CONFIG, "version": 3}) == settings_of(CONFIG)
    assert problems({"command": "plan", "config": CONFIG}) == ['$.command: must be "run"']
    assert problems({"command": "run"}) == ['$.config: must be an object, next to "command"']
    assert problems({"command": "run", "config": {}})[0] == '$.config: key "db_connection_string" is missing'


def test_every_problem_is_said_at_once_each_with_its_path() -> None:
    wrong = {
        "db_connection_string": "server=h;password=" + SECRET,
        "lock_config": {"type": "zookeeper"},
        "tables": ["a", "a", 3],
        "tabels": [],
        "poll_interval": 5,
        "snapshot": 3,
        "tables_overrides": {"overrides": [{"table_name": "b"}]},
        "spark": {},
        "queue": {},
        "a key": 1,
    }
    found = problems(wrong)
    for start in (
        '$.tabels: is an unknown key (did you mean "tables"?)',
        "$.spark: is an unknown key",
        "$.queue: is an unknown key",
        '$["a key"]: is an unknown key',
        "$.db_connection_string: has no",
        '$.lock_config.type: must be one of "azure_blob", "sqlserver", "local"',
        "$.tables[1]: lists dbo.a twice",
        "$.tables[2]: must be text",
        "$.poll_interval: must be a duration",
        "$.snapshot: must be an object",
        "$.tables_overrides.overrides[0].table_name: names dbo.b, which is not in tables",
    ):
        assert [one for one in found if one.startswith(start)], start


def test_nothing_is_said_in_the_words_of_a_file() -> None:
    shape = {"mask": {"Email": "hash:SHA-256:", "Phone": 5}, "skip_unchanged": "yes"}
    found = problems({**CONFIG, "page_rows": 1.5, "tables": [None], "shape": shape})
    assert len(found) == 5
    assert not [told for told in found if "quotes" in told or "{{" in told]
    assert "$.page_rows: must be a whole number" in found


def test_half_a_surrogate_pair_and_a_number_without_bounds_are_refused_wherever_they_stand() -> None:
    half = "\ud800" + SECRET
    shape = {"mask": {"Email": f"hash:SHA-256:{half}", "\ud800": "redact"}, "filter": half}
    assert problems({**CONFIG, "shape": shape, "tables": ["Cars", half]}) == [
        "$.tables[1]: holds half of a surrogate pair, which is not a character",
        "$.shape.mask.Email: holds half of a surrogate pair, which is not a character",
        "$.shape.mask: has a key that holds half of a surrogate pair, which is not a character",
        "$.shape.filter: holds half of a surrogate pair, which is not a character",
    ]
    long = parsed(b'{"page_rows": -' + b"9" * 5000 + b', "slice": {"rows": [' + b"9" * 5000 + b"]}}")
    assert problems({**CONFIG, **long}) == [
        "$.page_rows: has more digits than a number may have",
        "$.slice.rows[0]: has more digits than a number may have",
    ]
    whole = parsed(rb'{"a": "\ud83d\ude00"}')
    assert settings_of({"command": "run", "config": CONFIG, **whole, "b": "\ud800"}) == settings_of(CONFIG)


def test_what_is_missing_has_the_documents_names() -> None:
    assert problems({}) == [
        '$: key "db_connection_string" is missing',
        '$: key "tables" is missing',
        '$: key "lock_config" is missing',
    ]
    assert problems({**CONFIG, "lock_config": "local"}) == [
        "$.lock_config: must be an object",
        '$: key "lock_config" is missing',
    ]


def test_a_null_counts_as_missing_and_settings_of_the_file_have_the_same_names() -> None:
    found = settings_of(
        {
            **CONFIG,
            "on_gap": None,
            "before_images": True,
            "decimals": "number",
            "server_name": "prod",
            "tables_overrides": {
                "overrides": [{"table_name": "Cars", "poll_interval": "1s", "snapshot": {"mode": "initial"}}]
            },
        }
    )
    assert (found.on_gap, found.before_images, found.decimals, found.origin.server) == ("fail", True, "number", "prod")
    assert found.interval_of(TableName("dbo", "Cars")) == "1s"
    assert found.interval_of(TableName("dbo", "Persons")) == "5s"
    assert {table.name.table: table.snapshot for table in found.schedule} == {"Cars": "initial", "Persons": "never"}


def test_a_filter_is_refused_where_the_package_that_evaluates_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with without_the_library(monkeypatch):
        [told] = problems({**CONFIG, "shape": {"filter": "data.ID > 1"}})
    assert told == (
        "$.shape.filter: needs the Python package cel_expr_python, which is not installed: "
        "pip install 'dstream-cdc[ingester]' for an ingester, 'dstream-cdc[routes]' for a router"
    )


def test_a_dead_letter_has_nowhere_to_go() -> None:
    wrong = {**CONFIG, "tables_overrides": {"overrides": [{"table_name": "Cars", "on_filter_error": "dead_letter"}]}}
    path = "$.tables_overrides.overrides[0].on_filter_error"
    assert f'{path}: must be "fail": standard output has no dead-letter queue' in problems(wrong)


def test_a_setting_of_another_type_of_locks_is_remarked_with_its_path() -> None:
    found = settings_of({**CONFIG, "lock_config": {"type": "sqlserver", "container_name": "locks"}})
    assert [(it.setting, it.line) for it in found.remarks] == [("$.lock_config.container_name", 0)]


def test_the_keys_are_those_of_the_ingester_but_for_the_queue_and_spark() -> None:
    assert set(accepted_keys()) >= {"tables", "snapshot", "health", "on_gap", "max_line_bytes", "lock_config"}
    assert not set(accepted_keys()) & {"queue", "spark", "locks", "on_oversize", "db_type"}
    assert ProviderSettings.model_fields["max_line_bytes"].default == 65_535
