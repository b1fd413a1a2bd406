"""Names: what they look like, and that no two tables ever share one."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import Origin, TableName, check_server_name, colliding, quote_name, server_label

ORIGIN = Origin("server", "database")

# Few characters, the awkward ones first, so that collisions are likely if they are possible.
awkward = st.text(alphabet="._-x0 []/\\'\"dboAaé漢😀2", min_size=1, max_size=12)
longest = st.text(alphabet="ab.x_", min_size=100, max_size=128)
tables = st.builds(TableName, awkward | st.just("dbo"), awkward | longest)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("Persons", "dbo", "Persons"),
        ("sales.Orders", "sales", "Orders"),
        ("[sales].[Order Details]", "sales", "Order Details"),
        ("sales.Order Details", "sales", "Order Details"),
        (" [sales] . Orders ", "sales", "Orders"),
        ("[a.b].[c]]d]", "a.b", "c]d"),
        ("[ padded ]", "dbo", " padded "),
        ("[x'y\"z]", "dbo", "x'y\"z"),
    ],
)
def test_table_names_are_read_as_sql_server_reads_them(text: str, schema: str, table: str) -> None:
    assert TableName.parse(text) == TableName(schema, table)


@pytest.mark.parametrize(
    "text", ["", " ", ".", "a.", ".a", "a..b", "a.b.c", "[a", "a]", "[a]b", "[]", '"a"', "[a].[b].[c]", "x" * 129]
)
def test_what_is_no_table_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        TableName.parse(text)


def test_the_length_limit_counts_utf16_units_as_sysname_does() -> None:
    TableName.parse("😀" * 64)
    with pytest.raises(ValueError, match="128"):
        TableName.parse("😀" * 65)


def test_names_are_quoted_as_quotename_does() -> None:
    assert TableName("sa]les", "Order Details").quoted == "[sa]]les].[Order Details]"
    assert quote_name("a]]b") == "[a]]]]b]"


@given(tables)
def test_quoted_names_and_keys_read_back_as_the_same_table(table: TableName) -> None:
    assert TableName.parse(table.quoted) == table
    if len(table.schema) + len(table.table) < 100:
        assert TableName.parse(table.key) == table


def test_keys_are_schema_and_table_and_fit_the_column() -> None:
    assert TableName.parse("Persons").key == "dbo.Persons"
    assert TableName("s", "a.b").key == "s.[a.b]"
    assert len(TableName("s" * 128, "t" * 128).key) == 255


@pytest.mark.parametrize(
    ("table", "topic"),
    [
        ("Persons", "server.database.persons.events"),
        ("DBO.Persons", "server.database.persons.events"),
        ("sales.Orders", "server.database.sales.orders.events"),
        ("[sales].[Order Details]", "server.database.sales.order_x0020_details.events"),
        ("[a.b]", "server.database.a_x002e_b.events"),
        ("order_xlsx", "server.database.order_x005f_xlsx.events"),
        ("[😀]", "server.database._x0001f600_.events"),
    ],
)
def test_topic_of_a_table(table: str, topic: str) -> None:
    assert ORIGIN.topic(TableName.parse(table)) == topic


def _case_free(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


@given(tables, tables)
def test_two_tables_never_share_a_topic_key_lock_or_session(one: TableName, other: TableName) -> None:
    if one == other:
        return
    assert one.key != other.key
    assert ORIGIN.lock_path(one) != ORIGIN.lock_path(other)
    if _case_free(one) == _case_free(other):
        assert colliding(ORIGIN, [one, other]) == [(one, other)]
    else:
        assert ORIGIN.topic(one) != ORIGIN.topic(other)
        assert ORIGIN.session_id(one, "table") != ORIGIN.session_id(other, "table")
        assert colliding(ORIGIN, [one, other]) == []


@given(awkward, awkward, awkward, awkward)
def test_two_databases_never_share_a_topic(one: str, other: str, schema: str, table: str) -> None:
    if one.lower() != other.lower():
        name = TableName(schema, table)
        assert Origin("server", one).topic(name) != Origin("server", other).topic(name)


@given(st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=64))
def test_topics_hold_only_what_service_bus_takes(database: str, schema: str, table: str) -> None:
    topic = Origin("server", database).topic(TableName(schema, table))
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*[a-z0-9]", topic)
    assert len(topic) <= 260


def test_the_longest_names_keep_their_limits_and_stay_apart() -> None:
    origin = Origin("s" * 63, " " * 128)
    one, other = TableName(" " * 128, " " * 127 + "a"), TableName(" " * 128, " " * 127 + "b")
    for made, limit in ((origin.topic, 260), (origin.lock_path, 1024)):
        assert len(made(one)) == limit
        assert made(one) != made(other)
    assert origin.topic(one).endswith(".events")
    assert origin.lock_path(one).endswith(".lock")


def test_lock_path_is_spelled_as_configured_and_has_three_parts() -> None:
    assert Origin("SQL01", "Shop").lock_path(TableName("sales", "Orders")) == "sql01/Shop/sales.Orders.lock"
    assert Origin("s", "a/b.").lock_path(TableName("c/d", "e")).count("/") == 2


def test_sessions_follow_the_ordering() -> None:
    table = TableName("dbo", "Persons")
    assert ORIGIN.session_id(table, "table") == "server.database.persons.events"
    assert ORIGIN.session_id(table, "key", bucket=7) == "server.database.persons.events#7"
    assert ORIGIN.session_id(table, "none") is None


def test_session_ids_keep_to_128_characters_and_their_buckets_apart() -> None:
    table = TableName("s" * 128, "t" * 128)
    ids = {ORIGIN.session_id(table, "key", bucket=bucket) for bucket in range(100)}
    assert len(ids) == 100
    assert all(name is not None and len(name) <= 128 for name in ids)


def test_what_goes_to_another_topic_has_sessions_of_its_own() -> None:
    table = TableName("dbo", "Persons")
    assert ORIGIN.side_session_id(table, "again", "table") == "server.database.persons.events@again"
    assert ORIGIN.side_session_id(table, "again", "key", bucket=7) == "server.database.persons.events@again#7"
    assert ORIGIN.side_session_id(table, "again", "none") is None


@given(tables, tables, st.text("ab/.-_@", min_size=1, max_size=260), st.text("ab/.-_@", min_size=1, max_size=260))
def test_sessions_of_other_topics_are_as_long_as_may_be_and_never_shared(
    one: TableName, other: TableName, topic: str, second: str
) -> None:
    found = {ORIGIN.side_session_id(table, to, "table") for table in (one, other) for to in (topic, second)} | {
        ORIGIN.session_id(table, "table") for table in (one, other)
    }
    assert len(found) == len({ORIGIN.topic(table) for table in (one, other)}) * (1 + len({topic, second}))
    assert all(session is not None and len(session) <= 128 for session in found)


@pytest.mark.parametrize(
    ("host", "label"),
    [
        ("SQL01.corp.example", "sql01"),
        ("localhost", "localhost"),
        (".", "localhost"),
        ("(local)", "localhost"),
        ("10.1.2.3", "10-1-2-3"),
        ("::1", "0000-0000-0000-0000-0000-0000-0000-0001"),
        ("[fe80::1%eth0]", "fe80-0000-0000-0000-0000-0000-0000-0001"),
    ],
)
def test_server_label_comes_from_the_host_alone(host: str, label: str) -> None:
    assert server_label(host) == label


@pytest.mark.parametrize("name", ["", ".a", "a.b", "-a", "a_", "a b", "é", "a" * 129])
def test_a_server_name_that_could_not_begin_a_topic_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        check_server_name(name)


def test_a_server_name_may_hold_letters_digits_and_hyphens() -> None:
    assert check_server_name("SQL-01_a") == "SQL-01_a"
    assert set(check_server_name(string.ascii_letters)) == set(string.ascii_letters)


@pytest.mark.parametrize(
    "table",
    [
        TableName("dbo", "Persons"),
        TableName("Sales", "Order Details"),
        TableName("a.b", "x_x0041_"),
        TableName("s", "😀[]"),
    ],
)
def test_a_topic_shows_its_table_in_lower_case(table: TableName) -> None:
    origin = Origin("srv", "My Db")
    assert origin.table_of(origin.topic(table)) == TableName(table.schema.lower(), table.table.lower())


@pytest.mark.parametrize(
    "topic",
    [
        "srv.db.dbo.persons.events",  # dbo is never written
        "srv.db.persons",
        "srv.db..events",
        "srv.db.a.b.c.events",
        "srv.other.persons.events",
        "srv.db.Persons.events",
        "srv.db._x0041_.events",  # an A is not escaped
        "srv.db._xffffffff_.events",
        "ingest-queue",
        "",
    ],
)
def test_what_is_the_topic_of_no_table_shows_none(topic: str) -> None:
    assert Origin("srv", "db").table_of(topic) is None


def test_a_topic_whose_name_may_be_shortened_shows_no_table() -> None:
    origin = Origin("srv", "db")
    assert origin.table_of(origin.topic(TableName("dbo", "ж" * 100))) is None
