"""Mistakes of a caller are answered as such, with what to do about them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from common.errors import PermanentError, Unfit
from desk.console.http.app import described_app
from desk.console.http.configuring import UndoOrder
from desk.console.http.problems import problem_of
from desk.documents.configuring import OutputOrder, SourceOrder
from desk.documents.messages import DeadLetterOrder
from desk.documents.tables import OffsetOrder, SnapshotOrder
from ingester.history.rows import ConditionRefused


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unfit("beyond the log"), 422), (ConditionRefused("not closed"), 422), (PermanentError("no right"), 502)],
)
def test_what_does_not_fit_is_no_fault_of_a_store(error: Exception, status: int) -> None:
    assert problem_of(error, "r")[0].status == status


def test_a_body_that_cannot_be_read_has_a_remedy() -> None:
    assert "JSON" in str(problem_of(HTTPException(400), "r")[0].remedy)


ORDERS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (OffsetOrder, {"earliest": True}),
    (SnapshotOrder, {"table": "dbo.Orders"}),
    (DeadLetterOrder, {"entity": "queue"}),
    (SourceOrder, {"name": "dbo.Orders"}),
    (OutputOrder, {"name": "audit", "type": "servicebus"}),
    (UndoOrder, {}),
]
FLAGS = [
    (order, given, name)
    for order, given in ORDERS
    for name, described in order.model_fields.items()
    if isinstance(described.default, bool)
]


def test_every_order_s_flags_are_found() -> None:
    assert {order for order, *_ in FLAGS} == {order for order, _ in ORDERS}
    assert len(FLAGS) == 12
    bodies = {
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for operations in described_app().openapi()["paths"].values()
        for operation in operations.values()
        if "requestBody" in operation
    }
    assert bodies - {"Login", "PauseOrder", "StoryOrder"} == {order.__name__ for order, _ in ORDERS}


@pytest.mark.parametrize(("order", "given", "name"), FLAGS)
@pytest.mark.parametrize("value", ["yes", "no", "true", 0, 1, 1.0, None])
def test_only_true_and_false_confirm_something(
    order: type[BaseModel], given: dict[str, Any], name: str, value: Any
) -> None:
    assert order.model_validate(given | {name: True})
    with pytest.raises(ValidationError, match=name):
        order.model_validate(given | {name: value})
