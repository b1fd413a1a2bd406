"""`dstream plan`: writes what the configuration needs, as a file in one of several languages. Connects to nothing, unless it is asked to look what
patterns match."""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from common.errors import ConfigurationError, PermanentError
from dstream.options import DEFAULT, Config, Format, Level, LogFormat, LogLevel
from dstream.starting import imported, prepared


class Language(StrEnum):
    """Each has a module of its name in dstream/plan."""

    BICEP = "bicep"
    TERRAFORM = "terraform"
    SQL = "sql"
    KEDA = "keda"
    OUTPUTS = "outputs"


def plan(
    config: Config = DEFAULT,
    bicep: Annotated[bool, typer.Option("--bicep", help="Azure: namespace, queue, topics, identities, roles.")] = False,
    terraform: Annotated[bool, typer.Option("--terraform", help="The same for Terraform.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="The database: user, rights, capture, table of offsets.")] = False,
    keda: Annotated[bool, typer.Option("--keda", help="Kubernetes: a ScaledObject for the router.")] = False,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Each output: places, rights, commands of its server.")
    ] = False,
    with_matches: Annotated[
        bool, typer.Option("--with-matches", help="Ask the database which tables the patterns match now.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here (default: standard output).")
    ] = None,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Write what is needed as Bicep, Terraform, T-SQL or KEDA.

    --outputs writes what each output needs.
    Connects to nothing (but with --with-matches to the database) and writes no secret; variables with secrets need not be set.
    """
    from dstream.config import load_plan
    from dstream.plan.needs import needs_of

    chosen = {
        Language.BICEP: bicep,
        Language.TERRAFORM: terraform,
        Language.SQL: sql,
        Language.KEDA: keda,
        Language.OUTPUTS: outputs,
    }
    languages = [language for language, wanted in chosen.items() if wanted]
    if len(languages) != 1:
        raise ConfigurationError(["choose one of --bicep, --terraform, --sql, --keda and --outputs"])
    ingester, router = prepared(load_plan, config, log_level, log_format)
    matched = imported("ingester.commands.stores").with_matches(ingester) if with_matches else ingester
    if languages[0] is Language.OUTPUTS:
        _write(imported("dstream.plan.outputs").written(matched, router), output)
        return 0
    needs = needs_of(matched, router, ingester.selection)
    _write(import_module(f"dstream.plan.{languages[0]}").written(needs), output)
    return 0


def _write(text: str, output: Path | None) -> None:
    try:
        if output is None:
            print(text, end="", flush=True, file=sys.stdout)
        else:
            output.write_text(text, encoding="utf-8")
    except UnicodeEncodeError as error:
        raise PermanentError(
            f"writing the plan to standard output: the encoding {error.encoding} lacks characters of it",
            hint="use --output FILE, which is UTF-8, or set PYTHONUTF8=1",
        ) from error
    except OSError as error:
        where = "standard output" if output is None else str(output)
        raise PermanentError(f"writing the plan to {where}: {error.strerror or error}") from error
