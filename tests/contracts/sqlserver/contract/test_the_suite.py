"""The contract's own rules: every item has a test, every gap is one, and the page says what the tests say."""

from __future__ import annotations

import pytest

from tests.contracts.sqlserver.contract import overview
from tests.contracts.sqlserver.contract.known_gaps import GAPS
from tests.contracts.sqlserver.contract.labels import COLLECTED, ITEMS


def test_every_item_has_a_test() -> None:
    assert {claim.number for claim in overview.claims()} == set(ITEMS) == set(range(1, 72))


def test_no_two_tests_have_one_name() -> None:
    names = [claim.test for claim in overview.claims()]
    assert sorted(names) == sorted(set(names))


def test_every_known_gap_is_of_a_test_that_exists(pytestconfig: pytest.Config) -> None:
    """A case is looked up among the collected ones, where its test was collected."""
    tests = {claim.test for claim in overview.claims()}
    collected = pytestconfig.stash[COLLECTED]
    for gap, reason in GAPS.items():
        name, bracket, _ = gap.partition("[")
        assert name in tests, f"{gap} is no test"
        assert reason
        if bracket and any(test.startswith(f"{name}[") for test in collected):
            assert gap in collected, f"{gap} is no case of it"


def test_the_page_has_the_table_of_the_tests() -> None:
    """Write it anew with: python -m tests.contracts.sqlserver.contract.overview"""
    page = overview.PAGE.read_text(encoding="utf-8")
    assert overview.written(page) == overview.table(overview.claims())
