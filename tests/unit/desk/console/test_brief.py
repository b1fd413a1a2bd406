"""What an audit log keeps of a change's details."""

from __future__ import annotations

import json

from common.errors import PermanentError
from common.observability.logs import register_secret
from desk.console.brief import MOST_BYTES, brief
from desk.console.http.problems import problem_of

SECRET = "c2VjcmV0-of-a-test-of-brief"


def test_details_of_half_a_megabyte_become_a_short_line() -> None:
    for details in (
        {"settings": ["s" * 5000] * 100},
        {"order": {f"{'k' * 300}{number}": "v" * 3000 for number in range(500)}},
        {"settings": [f"\u6f22{number}" * 60 for number in range(9000)], "type": "azure_service_bus"},
    ):
        found = brief(details)
        assert len(json.dumps(found, ensure_ascii=False).encode()) <= MOST_BYTES + 200
    assert found["type"] == "azure_service_bus"


def test_it_says_what_is_left_out() -> None:
    assert brief({"settings": [f"s{number}" for number in range(25)]})["settings"][-1] == "and 5 more"


def test_short_details_stay_as_they_are() -> None:
    details = {"begun": True, "to": None, "order": {"sequences": [*range(100), "and 7 more"]}, "lacking": ["force"]}
    assert brief(details) == details


def test_no_secret_is_kept_or_answered() -> None:
    register_secret(SECRET)
    assert SECRET not in json.dumps(brief({"why": f"bad value {SECRET}", "settings": [SECRET], "order": {SECRET: 1}}))
    problem, _ = problem_of(PermanentError(f"the server says {SECRET}", hint=f"change {SECRET}"), "r1")
    assert SECRET not in problem.model_dump_json()
