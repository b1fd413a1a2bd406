"""The contract's own rules: every item has a test, every gap is one, and the page says what the tests say."""

from __future__ import annotations

import pytest

from tests.contracts.claims import written
from tests.contracts.contract_plugin import check_gaps
from tests.emulators.servicebus.contract import overview
from tests.emulators.servicebus.contract.known_gaps import GAPS
from tests.emulators.servicebus.contract.labels import CONTRACT


def test_every_item_has_a_test() -> None:
    assert {claim.number for claim in overview.claims()} == set(CONTRACT.items) == set(range(1, 62))


def test_no_two_tests_have_one_name() -> None:
    names = [claim.test for claim in overview.claims()]
    assert sorted(names) == sorted(set(names))


def test_every_known_gap_is_of_a_test_that_exists(pytestconfig: pytest.Config) -> None:
    check_gaps(GAPS, {claim.test for claim in overview.claims()}, pytestconfig)


def test_the_page_has_the_table_of_the_tests() -> None:
    """Write it again with: python -m tests.emulators.servicebus.contract.overview"""
    page = overview.PAGE.read_text(encoding="utf-8")
    assert written(page) == CONTRACT.table(overview.claims())
