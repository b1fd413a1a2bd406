"""Results on a standard output of any encoding, or on none."""

from __future__ import annotations

import io
import json
import sys

import pytest

from common.errors import PermanentError
from dstream.commands.plan import _write
from dstream.printing import print_document, print_lines

TEXT = 'odd.a]b "ünï'


ENCODINGS = pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])


def stdout(monkeypatch: pytest.MonkeyPatch, encoding: str) -> io.BytesIO:
    """In the test's own body: pytest exchanges sys.stdout after the fixtures."""
    found = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(found, encoding=encoding, newline=""))
    return found


@ENCODINGS
def test_a_name_that_standard_output_cannot_write_has_escapes(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = stdout(monkeypatch, encoding)
    print_lines([f"{TEXT} \u0142"])
    assert written.getvalue() == f"{TEXT} \u0142\n".encode(encoding, "backslashreplace")


@ENCODINGS
def test_a_document_is_json_in_every_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = stdout(monkeypatch, encoding)
    print_document({"table": f"{TEXT} \u0142 \U0001f600"})
    assert json.loads(written.getvalue().decode(encoding)) == {"table": f"{TEXT} \u0142 \U0001f600"}


@ENCODINGS
def test_a_plan_is_not_written_with_other_names(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = stdout(monkeypatch, encoding)
    if encoding == "utf-8":
        _write(TEXT, None)
        assert written.getvalue().decode() == TEXT
        return
    with pytest.raises(PermanentError, match="lacks characters"):
        _write(f"{TEXT} \u0142", None)


def test_a_closed_standard_output_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    print_lines([TEXT])
    print_document({"table": TEXT})
