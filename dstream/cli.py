"""The command line: the application and its commands. What each does is in `commands/`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from common.observability.quick import import_structlog
from dstream.commands import dlq, offsets, snapshot
from dstream.commands.asyncapi import asyncapi
from dstream.commands.check import check
from dstream.commands.completion import completion
from dstream.commands.console import console
from dstream.commands.demo import demo
from dstream.commands.doctor import doctor
from dstream.commands.emulators import emulators
from dstream.commands.ingester import ingester
from dstream.commands.pause import pause
from dstream.commands.plan import plan
from dstream.commands.provider import provider
from dstream.commands.replay import replay
from dstream.commands.resume import resume
from dstream.commands.router import router
from dstream.commands.schema import schema
from dstream.commands.server import server
from dstream.commands.status import status
from dstream.completing import asked, prepare
from dstream.grouping import Grouped
from dstream.reporting import OK, reported

app = typer.Typer(
    name="dstream",
    cls=Grouped,
    add_completion=False,  # `dstream completion` prints the script for a shell that is named, not guessed
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def named(command: Callable[..., int]) -> str:
    """What a person types for `command`."""
    return command.__name__.replace("_", "-")


for _command in (
    ingester,
    router,
    server,
    provider,
    check,
    doctor,
    plan,
    status,
    console,
    schema,
    asyncapi,
    pause,
    resume,
    replay,
    demo,
    emulators,
    completion,
):
    app.command(named(_command))(reported(_command))

_offsets = typer.Typer(cls=offsets.ShowByDefault, rich_markup_mode=None)
_snapshot = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_dlq = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
for _group, _subcommands in (
    (_offsets, offsets.SUBCOMMANDS),
    (_snapshot, snapshot.SUBCOMMANDS),
    (_dlq, dlq.SUBCOMMANDS),
):
    for _name, _command in _subcommands:
        _group.command(_name)(reported(_command))
app.add_typer(_offsets, name="offsets", help="Show how far each table was sent, or move it.")
app.add_typer(_dlq, name="dlq", help="Look at dead letters, send them again, or remove them.")
app.add_typer(_snapshot, name="snapshot", help="Send the rows that tables hold now, and show their progress.")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dstream {metadata.version('dstream-cdc')}")
        raise typer.Exit(OK)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Change data capture from SQL Server to Azure Service Bus: nothing lost, in order, from commit to topic."""


def main() -> None:
    """The entry point; ends the process with an exit status: 0 clean, 1 failed, 2 bad configuration or usage."""
    if asked():
        prepare(app)
    else:
        import_structlog()
    app(prog_name="dstream")
