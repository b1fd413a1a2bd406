"""A table that is not configured is refused with the one that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import ConfigurationError
from common.names import TableName
from ingester.commands.stores import chosen


def test_a_name_without_its_schema_is_told_which_table_may_be_meant() -> None:
    settings: Any = None
    tables = [TableName("dbo", "Persons"), TableName("sales", "Orders")]
    with pytest.raises(ConfigurationError, match=r"table orders: no such table .*\(did you mean sales.Orders\?\)"):
        chosen(settings, ["orders"], tables)
    with pytest.raises(ConfigurationError, match=r"configuration \(the tables are"):
        chosen(settings, ["Nobody"], tables)
