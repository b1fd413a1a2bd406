"""`dstream plan --sql`: users, rights, capture and the table of offsets, for an administrator to read and run.

Statements that change what other readers of the database see, and those that are optional, are written as comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from common.names import quote_name
from dstream.plan.needs import Database, Needs
from ingester.sqlserver.sql import rights

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Section:
    """`run`: whether its statements are to be run as they are."""

    title: str
    statements: tuple[str, ...]
    run: bool = True


def written(needs: Needs) -> str:
    database = needs.database
    head = [
        f"What this configuration needs in the database {database.name}. Written by `dstream plan --sql`; there is no secret in it.",
        "Run it as db_owner (as sysadmin where it makes a login or enables capture); running it again changes nothing.",
        *([_HOW] if database.identity is None else []),
    ]
    use = (
        [] if database.azure else [f"USE {quote_name(database.name)};"]
    )  # Azure SQL Database stays in the one that was connected to
    parts = ["\n".join(_comment(head)), *use, *map(_text, sections(database))]
    return "\n\n".join(parts) + "\n"


_HOW = "sqlcmd takes the password from the environment: export DSTREAM_PASSWORD=... ; sqlcmd -S SERVER -i plan.sql"


def sections(database: Database) -> Iterator[Section]:
    """In the order in which they are to be run."""
    user = database.user
    yield _user(database)
    yield Section(
        "Change Data Capture, where it is not enabled yet. It costs writes and space, so decide for each table: remove the dashes "
        "(run again, these statements fail), and name a role in place of NULL to have one guard the functions.",
        (rights.ENABLE_DATABASE, *(rights.enable_table(table) for table in database.tables)),
        run=False,
    )
    if database.by_function:
        yield Section('Reading by functions alone (query_mode = "function").', tuple(rights.read_catalog(user)))
        yield Section(
            "With this mode the user must be in the gating role of each capture instance that has one: "
            "SELECT capture_instance, role_name FROM cdc.change_tables WHERE role_name IS NOT NULL",
            (rights.join_role(user, "ROLE"),),
            run=False,
        )
    else:
        yield Section("Reading the change tables.", (rights.read_changes(user),))
    yield Section(
        "Without this the server hides the tables from the user. Snapshots read their rows.",
        tuple(rights.read_table(user, table) for table in database.tables),
    )
    if database.patterns:
        schemas = dict.fromkeys(pattern.schema_name for pattern in database.patterns)
        yield Section(
            "The same for tables that patterns match, also those to come. Where the schema is a pattern as well, the user sees the names of all "
            "tables; for snapshots, grant SELECT on the schemas.",
            tuple(rights.read_tables(user, schema) for schema in schemas),
        )
    yield Section(
        "Where each table was read up to. A user that owns no schema cannot make this table.", (rights.MAKE_OFFSETS,)
    )
    yield Section("Columns that an older installation's table lacks.", tuple(rights.add_columns()))
    yield Section('Locks of type "sqlserver" are application locks and need no table.', (rights.use_offsets(user),))
    if database.scans_log:
        yield Section(
            "Scanning the log (low_latency = true). sys.sp_cdc_scan needs this role and no smaller right, and the role may do everything in this "
            "database: remove the dashes if that is acceptable.",
            (rights.join_role(user, rights.SCANNER),),
            run=False,
        )
    yield from _records(database)
    yield _seeing(database)


def _records(database: Database) -> Iterator[Section]:
    """What is kept beside offsets."""
    user = database.user
    yield Section(
        "Where `dstream offsets set` writes down each move, for repairs with this login, as by kubectl exec. The ingester does not use it.",
        (rights.MAKE_MOVES, rights.use_moves(user)),
    )
    yield Section(
        "Which snapshots were asked for, and how far each has come. Without it the tables' changes are sent, and no snapshots.",
        (rights.MAKE_SNAPSHOTS, rights.use_snapshots(user)),
    )
    yield Section(
        "Which tables a person has paused (`dstream pause`, the console). Without it every table is read.",
        (rights.MAKE_PAUSES, rights.use_pauses(user)),
    )
    if database.keeps_schemas:
        yield Section(
            "Which columns each table's messages have had (schema_events).",
            (rights.MAKE_SCHEMAS, rights.use_schemas(user)),
        )


def _user(database: Database) -> Section:
    user = database.user
    if database.identity is not None:
        text = "The identity that the ingester runs under, as a user of the database. Run this as the server's administrator of Microsoft Entra ID."
        return Section(text, (rights.user_of_identity(user),))
    if database.azure:
        return Section("A user with a password of its own.", (rights.contained_user(user),))
    return Section("A login of the server, and its user.", (rights.login(user), rights.user_of_login(user)))


def _seeing(database: Database) -> Section:
    user = database.user
    made = rights.user_of_login(user) if database.identity is None else rights.user_of_identity(user)
    jobs = [rights.see_jobs_of_service(user)] if database.azure else rights.see_jobs(user, made, database.name)
    return Section(
        "Optional: whether capture stands still or lags, and how long changes are kept (without these rights the log says once what is unknown).",
        (rights.see_scans(user), *jobs),
        run=False,
    )


def _text(section: Section) -> str:
    lines = section.statements if section.run else [f"-- {line}" for line in "\n".join(section.statements).splitlines()]
    return "\n".join([*_comment([section.title]), *lines])


def _comment(sentences: Iterable[str]) -> Iterator[str]:
    for sentence in sentences:
        line = "--"
        for word in sentence.split():
            if len(line) + len(word) > _WIDTH:
                yield line
                line = "--"
            line += f" {word}"
        yield line
