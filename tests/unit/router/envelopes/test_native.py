"""The native envelope is read without a value being touched; and everything that is not one is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.envelopes.native import read
from router.envelopes.port import NotNative
from tests.unit.router.envelopes.golden import FORMS, converter, native

NUMBERS = st.one_of(
    st.integers(-(10**38), 10**38).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=38).map(lambda number: f"{number:f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.sampled_from(["0.10", "1e+23", "1E400", "-0", "9" * 5_000]),
)
TEXTS = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(
        lambda text: json.dumps(text, ensure_ascii=False)
    ),
    st.sampled_from([r'"\ud83d"', r'"\udc0e\ud83d"', r'"\u0000"', r'"a\/b"', '""']),
)
VALUES = st.one_of(NUMBERS, TEXTS, st.sampled_from(["null", "true", "false", '{"a": [1.0]}', "[]"]))
ROWS = st.lists(st.tuples(TEXTS, VALUES), max_size=5).map(
    lambda row: "{" + ", ".join(f"{name}:{value}" for name, value in row) + "}"
)
METADATA = json.loads(native("update").body)["metadata"]


@given(
    data=ROWS,
    before=st.none() | ROWS,
    order=st.permutations(["data", "metadata", "before"]),
    blank=st.sampled_from(["", " \n"]),
)
def test_every_value_comes_out_as_the_text_that_went_in(
    data: str, before: str | None, order: list[str], blank: str
) -> None:
    parts = {"data": data, "metadata": json.dumps(METADATA), "before": before}
    members = [f'{blank}"{key}"{blank}:{blank}{parts[key]}{blank}' for key in order if parts[key] is not None]
    body = (blank + "{" + ",".join(members) + "}" + blank).encode()
    found = read(body)
    assert (found.data, found.before) == (data, before)
    whole = replace(native("update"), body=body)
    for form in FORMS:
        [made] = converter(form).converted(whole)
        text = made.body.decode()
        assert data in text
        assert before is None or before in text
        assert _members(made.body) >= _members(data.encode())


def _members(body: bytes) -> set[str]:
    """All texts and numbers in it, as they are written: it is JSON."""
    found: set[str] = set()

    def number(text: str) -> str:
        found.add(text)
        return text

    json.loads(body, parse_int=number, parse_float=number)
    return found


BROKEN = {
    b"": "not a JSON object",
    b"[]": "not a JSON object",
    b"\xff{}": "cannot be read",
    b"\xef\xbb\xbf{}": "not a JSON object",
    b"{": "no key",
    b"{1: 2}": "no key",
    b'{"data" {}}': "no colon",
    b'{"data": }': "cannot be read",
    b'{"data": NaN}': "cannot be read",
    b'{"data": {}, }': "no key",
    b'{"data": {}} {}': "unexpected text",
    b'{"data": {"a": "\x00"}}': "cannot be read",
    b'{"data": ' + b"[" * 20_000: "cannot be read",
    b"{}": "no data or no metadata",
    b'{"data": {}}': "no data or no metadata",
    b'{"data": {}, "metadata": []}': "metadata is not an object",
}


@pytest.mark.parametrize(("body", "words"), BROKEN.items(), ids=range(len(BROKEN)))
def test_a_body_that_is_not_native_is_refused_with_the_reason(body: bytes, words: str) -> None:
    with pytest.raises(NotNative, match=words):
        read(body)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, value) for key in ("Server", "Database", "Schema", "TableName", "EventID") for value in (None, "", 1)),
        *((key, value) for key in ("LSN", "SeqVal") for value in (None, "00", "g" * 20, "0" * 21, 7)),
        *((key, value) for key in ("OperationID", "CommandID") for value in (None, "1", 1.0, True)),
        ("OperationType", None),
        ("CommitTime", 7),
    ],
)
def test_metadata_that_an_envelope_needs_must_be_there_and_of_its_kind(key: str, value: object) -> None:
    body = {"data": {}, "metadata": {**METADATA, key: value}}
    with pytest.raises(NotNative, match=f"metadata.{key}"):
        read(json.dumps(body).encode())


@pytest.mark.parametrize("key", ["data", "before"])
@pytest.mark.parametrize("value", ["null", "[]", "1", '"{}"'])
def test_a_row_must_be_an_object(key: str, value: str) -> None:
    parts = {"data": "{}", "metadata": json.dumps(METADATA), key: value}
    body = "{" + ",".join(f'"{name}":{part}' for name, part in parts.items()) + "}"
    with pytest.raises(NotNative, match=f"{key} is not an object"):
        read(body.encode())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", ["Server", "TableName", "CommitTime"])
def test_a_name_that_is_not_unicode_cannot_be_written(form: str, key: str) -> None:
    whole = native("insert")
    content = json.loads(whole.body)
    content["metadata"][key] = "\ud800"
    with pytest.raises(NotNative):
        converter(form).converted(replace(whole, body=json.dumps(content).encode()))
