"""Needs of a configuration that names Azure's services, with the parts that a test changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dstream.config import load_plan
from dstream.plan.needs import Needs, needs_of

Plan = Callable[..., Needs]

_CONFIG = """\
ingester {{
    db_type              = "sqlserver"
    db_connection_string = "{db}"
    {named}
    {ingester}
    queue {{
        name      = "{queue}"
        {bus}
        provision = "{provision}"
        {queue_more}
    }}
    locks {{
        {locks}
    }}
    tables = [{tables}]
}}
router {{
    provision = "{provision}"
    {router}
    source {{
        {bus}
    }}
    output {{
        {topics_bus}
    }}
}}
"""
BUS = 'namespace = "shop-bus.servicebus.windows.net"'
_USUAL = {
    "db": "sqlserver://dstream:secret-Password-1@db.corp:1433?database=shop",
    "named": 'server_name = "prod"\n    database = "shop"',
    "queue": "ingest-queue",
    "bus": BUS,
    "topics_bus": BUS,
    "provision": "none",
    "locks": 'type = "azure_blob"\n        account_url = "https://shoplocks.blob.core.windows.net"',
    "tables": '"Persons", "sales.Order Details"',
    "ingester": "",
    "queue_more": "",
    "router": "",
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    def made(**changed: str) -> Needs:
        config = tmp_path / "dstream.hcl"
        config.write_text(_CONFIG.format(**(_USUAL | changed)))
        return needs_of(*load_plan(config, {}))

    return made
