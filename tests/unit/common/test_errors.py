"""What is said of an error that nobody foresaw, where rows are at hand."""

from __future__ import annotations

from common.errors import unforeseen


def raised(what: str) -> ValueError:
    try:
        int(what)
    except ValueError as error:
        return error
    raise AssertionError


def test_an_unforeseen_error_is_named_with_its_place_and_without_its_text() -> None:
    error = raised("ada@example.org")
    assert "ada@example.org" in str(error)
    assert unforeseen(error) == f"ValueError, raised in raised, test_errors.py line {error.__traceback__.tb_lineno}"  # type: ignore[union-attr]
    assert unforeseen(ValueError("ada@example.org")) == "ValueError"


def test_the_operating_system_may_speak() -> None:
    assert unforeseen(OSError(28, "No space left on device")) == "OSError: [Errno 28] No space left on device"
