"""What the driver asks SQL Server in a pass over many tables: requests, and octets of T-SQL, as the emulator receives them.

    python -m bench.questions [TABLES]

No server of Microsoft's is needed, and nothing is timed: what is sent does not depend on how fast it is answered.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pydantic import SecretStr

from common.names import TableName
from common.sqladdress import SqlAddress
from dstream.emulators import Login
from emulators.sqlserver.build import build_engine
from emulators.sqlserver.server import SqlServerEmulator
from ingester.source import ProbeRequest
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.source import SqlServerSource

_USER, _PASSWORD, _TABLE = "sa", "bench-Password-1", TableName("dbo", "Orders")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a pass is over one table at least")
    return int(text)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.questions", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument(
        "tables", type=_count, nargs="?", default=1000, metavar="TABLES", help="of a pass (default: %(default)s)"
    )
    return parser.parse_args(given)


def main(tables: int) -> None:
    sent: list[str] = []
    engine = build_engine(users={_USER: _PASSWORD}, databases=["asked"], capture_interval=3600)
    with SqlServerEmulator(engine, statement_log=sent.append) as server:
        client = Login("127.0.0.1", server.port, _USER, _PASSWORD, "asked").connect()
        cursor = client.cursor()
        cursor.execute(f"CREATE TABLE {_TABLE.quoted} (ID INT PRIMARY KEY)")
        cursor.execute("EXEC sys.sp_cdc_enable_db")
        cursor.execute("EXEC sys.sp_cdc_enable_table N'dbo', N'Orders', @role_name = NULL")
        address = SqlAddress("127.0.0.1", server.port, None, "asked", _USER, SecretStr(_PASSWORD))
        source = SqlServerSource(Connection(address))
        instance = source.states([_TABLE])[_TABLE].instances[0]
        start = instance.start
        for pass_ in ("something was committed since", "the first after it", "nothing was committed since"):
            if pass_.startswith("something"):
                cursor.execute(f"INSERT INTO {_TABLE.quoted} VALUES (1)")
                cursor.execute("EXEC sys.sp_cdc_scan")
            del sent[:]
            probe = source.probe([ProbeRequest(instance, start)] * tables)
            octets = sum(len(text.encode("utf-16-le")) for text in sent)
            print(f"{tables} tables, {pass_}: {len(sent)} requests, {octets:,} octets")
            assert probe.upto is not None
            start = probe.upto
        source.close()
        client.close()
    engine.close()


if __name__ == "__main__":
    main(arguments().tables)
