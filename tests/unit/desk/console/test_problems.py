"""Mistakes of a caller are answered as such, with what to do about them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from common.errors import PermanentError, Unfit
from desk.console.http.problems import problem_of
from desk.documents.tables import OffsetOrder
from ingester.history.rows import ConditionRefused


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unfit("beyond the log"), 422), (ConditionRefused("not closed"), 422), (PermanentError("no right"), 502)],
)
def test_what_does_not_fit_is_no_fault_of_a_store(error: Exception, status: int) -> None:
    assert problem_of(error, "r")[0].status == status


def test_a_body_that_cannot_be_read_has_a_remedy() -> None:
    assert "JSON" in str(problem_of(HTTPException(400), "r")[0].remedy)


@pytest.mark.parametrize("name", ["dry_run", "take", "skip", "earliest", "latest"])
@pytest.mark.parametrize("value", ["yes", "no", 0, 1])
def test_only_true_and_false_confirm_something(name: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        OffsetOrder.model_validate({name: value})
