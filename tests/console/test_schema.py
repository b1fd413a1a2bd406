"""The API against its own description: requests that it allows and that it forbids, made up by schemathesis. `make soak` makes up many more."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from desk.console.http.app import described_app
from tests.console.serving import Running

API = schemathesis.openapi.from_dict(described_app().openapi()).exclude(path="/api/v1/events")
_CHECKED = settings(
    deadline=None,
    database=None,
    derandomize=True,
    max_examples=4,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def validate(case: schemathesis.Case[Any], console: Running) -> None:
    """Status, type and document of the answer are described; nothing that is not described is taken for right.

    A request may be as described and still be refused: `exactly one of` is no rule that the description has."""
    case.call_and_validate(base_url=console.url, timeout=20, excluded_checks=[positive_data_acceptance])


@API.parametrize()
@_CHECKED
def test_answers_are_as_they_are_described(case: schemathesis.Case[Any], console: Running) -> None:
    validate(case, console)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@API.parametrize()
@settings(_CHECKED, derandomize=False, max_examples=200)
def test_many_answers_are_as_they_are_described(case: schemathesis.Case[Any], console: Running) -> None:
    validate(case, console)
