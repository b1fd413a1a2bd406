"""What `dstream plan --sql` writes is T-SQL by Microsoft's parser, the statements in its comments included."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from common.names import TableName
from common.sqladdress import Identity
from dstream.plan.needs import Database
from dstream.plan.sql import sections
from tests.scriptdom.conftest import Parse

_ODD = TableName("a]b", "it's 100%s [odd]")
_USUAL = Database("sh]op", "it's [me]", azure=False, identity=None, tables=(_ODD,), by_function=False)


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
