"""What is decided before anything is written."""

from __future__ import annotations

import pytest

from common.errors import ConfigurationError
from dstream.plan.needs import Grant, Needs, Role
from tests.unit.dstream.plan.conftest import BUS, Plan

KEY = 'connection_string = "{{ env("NOT_SET") }}"'


def roles(needs: Needs, who: str) -> set[tuple[Role, str, str]]:
    return {(grant.role, grant.on, grant.at) for grant in needs.grants if grant.who == who}


def test_without_provisioning_nobody_manages_anything_but_the_scaler_the_queue(plan: Plan) -> None:
    needs = plan()
    assert roles(needs, "ingester") == {(Role.SENDER, "queue", "bus"), (Role.BLOBS, "container", "")}
    assert roles(needs, "router") == {(Role.RECEIVER, "queue", "bus"), (Role.SENDER, "topics", "bus")}
    assert roles(needs, "scaler") == {(Role.OWNER, "queue", "bus")}
    assert not needs.provisioned


@pytest.mark.parametrize("how", ["create", "verify"])
def test_a_start_that_looks_at_entities_owns_the_namespace_and_needs_nothing_else_there(plan: Plan, how: str) -> None:
    needs = plan(provision=how, topics_bus='namespace = "other.servicebus.windows.net"')
    assert roles(needs, "ingester") == {(Role.OWNER, "namespace", "bus"), (Role.BLOBS, "container", "")}
    assert roles(needs, "router") == {(Role.OWNER, "namespace", "bus"), (Role.OWNER, "namespace", "topics_bus")}
    assert needs.provisioned


def test_where_patterns_match_tables_to_come_the_router_may_send_to_any_topic(plan: Plan) -> None:
    needs = plan(tables='"Persons", "sales.*", "*.Log", "!sales.Audit*"')
    assert (Role.SENDER, "namespace", "bus") in roles(needs, "router")
    assert (Role.SENDER, "topics", "bus") not in roles(needs, "router")
    assert needs.patterns == "sales.*, *.Log, not sales.Audit*"
    assert [pattern.schema_name for pattern in needs.database.patterns] == ["sales", None]


def test_transactions_need_a_topic_and_no_table(plan: Plan) -> None:
    without, needs = plan(), plan(ingester="transactions = true")
    [more] = {topic.name for topic in needs.namespaces[0].topics} - {t.name for t in without.namespaces[0].topics}
    assert more.endswith(".cdc.transactions.events")
    assert needs.database == without.database


def test_packs_need_the_right_to_send_a_poison_change_to_the_queue(plan: Plan) -> None:
    assert (Role.SENDER, "queue", "bus") in roles(plan(queue_more="pack = 2"), "router")


def test_queue_and_topics_in_two_namespaces(plan: Plan) -> None:
    first, second = plan(topics_bus='namespace = "other.servicebus.windows.net"').namespaces
    assert (first.name, first.queue and first.queue.name, first.topics) == ("shop-bus", "ingest-queue", ())
    assert (second.name, second.queue) == ("other", None)
    assert [topic.name for topic in second.topics] == [
        "prod.shop.persons.events",
        "prod.shop.sales.order_x0020_details.events",
    ]


def test_a_key_whose_variable_is_not_set_leaves_the_namespace_open(plan: Plan) -> None:
    (only,) = plan(bus=KEY, topics_bus=KEY).namespaces
    assert (only.name, only.by_key) == (None, True)


def test_an_emulator_is_not_a_namespace_of_azure(plan: Plan) -> None:
    emulator = 'connection_string = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"'
    assert plan(bus=emulator, topics_bus=emulator).namespaces[0].host is None


def test_no_variable_has_to_be_set_except_where_a_name_depends_on_it(plan: Plan) -> None:
    needs = plan(db='{{ env("NOT_SET") }}')
    assert (needs.database.name, needs.database.user) == ("shop", "dstream")
    with pytest.raises(ConfigurationError, match="topic names need it"):
        plan(db='{{ env("NOT_SET") }}', named="")


def test_an_administrator_in_the_configuration_is_not_made_the_user(plan: Plan) -> None:
    assert plan(db="sqlserver://sa:Secret-1@db.corp?database=shop").database.user == "dstream"


@pytest.mark.parametrize(
    ("ordering", "sessions"), [("table", 2), ("key", 2 * 64), ("none", None)], ids=["table", "key", "none"]
)
def test_sessions_follow_from_the_ordering(plan: Plan, ordering: str, sessions: int | None) -> None:
    assert plan(queue_more=f'ordering = "{ordering}"').scaling.sessions == sessions


def test_every_grant_has_its_reason(plan: Plan) -> None:
    for how in ("create", "none"):
        assert all(isinstance(grant, Grant) and grant.why for grant in plan(provision=how).grants)


def test_a_default_output_of_another_type_needs_no_topics_and_no_right_to_them(plan: Plan) -> None:
    found = plan(topics_bus='type = "console"')
    [namespace] = found.namespaces
    assert (namespace.queue is not None, namespace.topics) == (True, ())
    assert "topics" not in [grant.on for grant in found.grants]


def test_topics_are_planned_under_the_names_that_the_output_gives_them(plan: Plan) -> None:
    found = plan(topics_bus=f'{BUS}\n        topic = "cdc-{{schema}}-{{table}}"')
    assert [topic.name for topic in found.namespaces[0].topics] == ["cdc-dbo-persons", "cdc-sales-order_x0020_details"]
