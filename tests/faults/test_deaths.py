"""Whose death it is put down to when a message comes to the ingest queue again."""

from __future__ import annotations

from tests.worlds.deaths import Redelivery

ONE, TWO = "shop.dbo.Orders:01-1-01-2", "shop.dbo.Orders:01-1-02-2"
ORDERS = "shop.dbo.Orders"


def test_what_a_successor_sends_again_is_put_down_to_the_one_that_was_killed() -> None:
    found = Redelivery()
    found.arrived("a", [ONE, TWO], {})
    found.arrived("b", [TWO], {"a": 10.0})
    assert found.again == {("a", ORDERS): {TWO}}


def test_a_worker_that_outlives_its_driver_and_sends_after_the_successor_is_put_down_to_the_driver() -> None:
    found = Redelivery()
    found.arrived("b", [ONE], {"a": 10.0})
    found.arrived("a", [ONE], {"a": 10.0})
    assert found.again == {("a", ORDERS): {ONE}}


def test_of_two_that_were_killed_it_is_the_first_and_a_change_counts_once() -> None:
    found = Redelivery()
    found.arrived("a", [ONE], {})
    found.arrived("b", [ONE], {"a": 10.0})
    found.arrived("a", [ONE], {"a": 10.0, "b": 11.0})
    assert found.again == {("a", ORDERS): {ONE}}


def test_of_two_living_ones_it_is_the_first() -> None:
    found = Redelivery()
    found.arrived("a", [ONE], {"c": 10.0})
    found.arrived("b", [ONE], {"c": 10.0})
    assert found.again == {("a", ORDERS): {ONE}}
