"""What an error prints with --log-level debug: where it came from, and nothing of a row."""

from __future__ import annotations

import logging

import pytest

from common.errors import PermanentError
from dstream.reporting import report

VALUE = "@".join(("ada", "example.org"))


def _fail() -> None:
    try:
        int(VALUE)
    except ValueError as error:
        raise PermanentError("reading dbo.Persons: error 245", hint="fix it") from error


def test_the_stacks_of_debug_name_causes_by_type_and_not_in_their_words(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(PermanentError) as raised:
        _fail()
    assert report(raised.value) == 1
    said = capsys.readouterr().err
    assert "reading dbo.Persons: error 245" in said
    assert "ValueError\n" in said
    assert "test_reporting.py" in said
    assert VALUE not in said
