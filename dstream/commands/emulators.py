"""`dstream emulators`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dstream.options import DEFAULT, Format, Level, LogFormat, LogLevel, UnreadConfig
from dstream.starting import logged, started


def emulators(
    tls: Annotated[bool, typer.Option("--tls", help="Let SQL Server offer verified encryption.")] = False,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:ARGUMENTS]", help="Make SQL Server fail in this way (repeatable)."),
    ] = None,
    bus_fault: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:ARGUMENTS]", help="Make Service Bus fail in this way (repeatable)."),
    ] = None,
    bus_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Entities to create: a Config.json as for Microsoft's emulator.")
    ] = None,
    bus_data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the data of Service Bus here (default: in memory).")
    ] = None,
    bus_credits: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Throttle Service Bus to N credits a second (Standard: 1000)."),
    ] = None,
    sqlserver_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="SQL Server's port (0: any that is free).")
    ] = 1433,
    bus_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Service Bus's port (0: any that is free).")
    ] = 5672,
    management_port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="PORT", help="The port of its management API (0: any that is free)."),
    ] = 5300,
    config: UnreadConfig = DEFAULT,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run the emulators alone, until stopped.

    Prints their connection strings.
    """
    logged(log_level, log_format)
    from dstream.emulators import Bus, Ports

    bus = Bus(bus_config, bus_data, bus_credits, tuple(bus_fault or ()))
    ports = Ports(sqlserver_port, bus_port, management_port)
    return started("dstream.emulators", tls=tls, faults=tuple(fault or ()), bus=bus, ports=ports)
