"""The block `postgres`: places, what libpq is told, and the plan."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from common.names import TRANSACTIONS, Origin, TableName
from router.outputs.port import Stream
from router.outputs.postgres.plan import planned
from router.outputs.postgres.settings import PostgresSettings, parameters

ORIGIN = Origin("server", "Shop")
PERSONS = TableName("dbo", "Persons")
SECRET = "Hidden-1"


def settings(**more: Any) -> PostgresSettings:
    given = {"host": "db.example.com", "database": "copies", "user": "dstream", "password": SECRET, "name": "copy"}
    return PostgresSettings.model_validate({**given, **more})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, '"dbo"."persons"'),
        ({"names": "source"}, '"dbo"."Persons"'),
        ({"table": "{database}_{schema}.{table}"}, '"shop_dbo"."persons"'),
        ({"table": "{schema}_{table}"}, '"public"."dbo_persons"'),
    ],
)
def test_places(given: dict[str, Any], place: str) -> None:
    assert settings(**given).place(ORIGIN, "t", PERSONS) == place


def test_a_route_gives_another_place_and_a_side_topic_its_own_name() -> None:
    assert settings().place(ORIGIN, "t", PERSONS, instead="audit.{table}") == '"audit"."persons"'
    assert settings().place(ORIGIN, "Persons.copy", None) == '"public"."persons.copy"'


def test_a_dot_in_a_name_stays_in_the_name() -> None:
    assert settings().place(ORIGIN, "t", TableName("a.b", 'c"d')) == '"a.b"."c""d"'


@pytest.mark.parametrize(
    "given",
    [
        {"host": "a b"},
        {"host": ""},
        {"host": "a,"},
        {"table": "fixed"},
        {"table": "{table}.x.y"},
        {"table": ".{table}"},
        {"client_key": "k.pem"},
        {"tls": "disable", "ca_file": "ca.pem"},
        {"own_schema": "x" * 64},
        {"connections": 0},
    ],
)
def test_mistakes(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**given)


def test_what_libpq_is_told() -> None:
    found = parameters(settings(host="a:5433, b,[::1]:6000", ca_file="ca.pem"))
    assert (found["host"], found["port"]) == ("a,b,::1", "5433,5432,6000")
    assert (found["target_session_attrs"], found["sslmode"], found["sslrootcert"]) == (
        "read-write",
        "verify-full",
        "ca.pem",
    )
    assert found["password"] == SECRET
    assert "target_session_attrs" not in parameters(settings())
    assert parameters(settings())["sslrootcert"].endswith(".pem")


def test_the_password_is_never_shown() -> None:
    given = settings()
    assert SECRET not in repr(given) + str(given) + given.where + repr(planned(given, [], "create"))


def test_the_plan_names_what_is_created_and_what_is_needed() -> None:
    stream = Stream("t", PERSONS, settings().place(ORIGIN, "t", PERSONS))
    about = Stream("x", TRANSACTIONS, '"cdc"."transactions"')
    found = planned(settings(), [stream, about], "create")
    assert found.creates[1:] == ['table "dbo"."persons", when a schema event says its columns']
    assert "transactions" not in "".join([*found.creates, *found.needs, found.script])
    assert 'GRANT USAGE, CREATE ON SCHEMA "dbo" TO "dstream";' in found.script
    least = planned(settings(schema_changes="ignore"), [stream], "verify")
    assert least.creates == []
    assert 'GRANT SELECT, INSERT, UPDATE, DELETE ON "dbo"."persons" TO "dstream";' in least.script
    assert "CREATE ON" not in least.script
