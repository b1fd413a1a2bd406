"""What `dstream plan --sql` and `dstream doctor` write is T-SQL by Microsoft's parser, the statements in comments included."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from common.names import TableName
from common.sqladdress import Identity
from dstream.plan.needs import Database
from dstream.plan.sql import sections
from ingester.sqlserver.hints import HINTS
from ingester.sqlserver.sql import rights
from ingester.sqlserver.sql.offsets import to_send_elsewhere
from tests.scriptdom.conftest import Parse

_ODD = TableName("a]b", "it's 100%s [odd]")
_USUAL = Database(
    "sh]op", "it's [me]", azure=False, identity=None, tables=(_ODD,), by_function=False, keeps_schemas=True
)


@pytest.mark.parametrize("by_function", [False, True])
@pytest.mark.parametrize("azure", [False, True])
@pytest.mark.parametrize("identity", [None, "workload"])
def test_every_statement_is_t_sql(parse: Parse, azure: bool, identity: Identity | None, by_function: bool) -> None:
    database = replace(_USUAL, azure=azure, identity=identity, by_function=by_function)
    for section in sections(database):
        assert section.statements
        for statement in section.statements:
            assert parse(statement) == [], statement
            assert not re.search(r"\n\s*\n", statement)


_USER = "it's [me]"
CORRECTING = [
    rights.ADD_JOB,
    *rights.SCAN_MORE,
    rights.keep_changes(),
    rights.enable_table(_ODD, instance="it's_2"),
    rights.disable_table(_ODD, "it's"),
    rights.join_role(_USER, "a]b"),
    rights.read_times(_USER),
    *rights.see_jobs(_USER, rights.user_of_login(_USER), "sh]op"),
    f"{HINTS.first_start(_ODD)};",
    f"{to_send_elsewhere(_ODD.key, 'ns/q (s/d)')};",
]


@pytest.mark.parametrize("statement", CORRECTING)
def test_every_correction_is_t_sql(parse: Parse, statement: str) -> None:
    assert parse(statement) == []
