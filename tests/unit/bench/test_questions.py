"""The command line of `python -m bench.questions`."""

from __future__ import annotations

import pytest

from bench.questions import arguments


def test_a_thousand_tables_are_asked_for_unless_others_are_named() -> None:
    assert arguments([]).tables == 1000
    assert arguments(["3"]).tables == 3


@pytest.mark.parametrize(("given", "status"), [("--help", 0), ("many", 2), ("0", 2)])
def test_help_and_bad_usage_are_no_traceback(given: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments([given])
    assert ended.value.code == status
    told = capsys.readouterr()
    assert "TABLES" in told.out + told.err
