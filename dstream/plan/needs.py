"""What a configuration needs: entities, roles, rights at the database, replicas. Pure; the other modules of this folder write it down.

Nothing is looked up: whether something exists already is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from common.bus.ports import QueueNeed, TopicNeed
from common.bus.settings import BusSettings
from common.errors import ConfigurationError
from common.names import Ordering, TableName
from common.sqladdress import Identity, SqlAddress
from common.table_selection import TablePattern, TableSelection
from ingester.blocks.locks import AzureBlobLockSettings
from ingester.settings import IngesterSettings
from router.outputs.places import streams_by_output
from router.outputs.registry import on_topics
from router.settings import RouterBlock

INGESTER, ROUTER, SCALER = "dstream-ingester", "dstream-router", "dstream-scaler"
"""Names of the identities; the first two are also those of the Kubernetes service accounts and deployments."""

Stage = Literal["ingester", "router", "scaler"]
Scope = Literal["namespace", "queue", "topics", "container"]


class Role(StrEnum):
    """A built-in role. https://learn.microsoft.com/azure/role-based-access-control/built-in-roles"""

    SENDER = "Azure Service Bus Data Sender"
    RECEIVER = "Azure Service Bus Data Receiver"
    OWNER = "Azure Service Bus Data Owner"
    BLOBS = "Storage Blob Data Contributor"


@dataclass(frozen=True, slots=True)
class Grant:
    """`why`: for the reader of the file. `at`: the symbol of the namespace; "" for the container."""

    who: Stage
    role: Role
    on: Scope
    at: str
    why: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """`symbol`: its name inside the file. `host`: None when the configuration does not name one of Azure's (a variable that is not set, an
    emulator). `by_key`: something signs in with a key.
    """

    symbol: str
    host: str | None
    queue: QueueNeed | None
    topics: tuple[TopicNeed, ...]
    by_key: bool

    @property
    def name(self) -> str | None:
        return None if self.host is None else self.host.partition(".")[0]


@dataclass(frozen=True, slots=True)
class LockStore:
    """The container of `azure_blob` locks. `account`: None when the configuration does not name it."""

    account: str | None
    container: str
    by_key: bool


@dataclass(frozen=True, slots=True)
class Database:
    """`user`: of the database. `azure`: Azure SQL Database, which has no msdb. `identity`: of Microsoft Entra ID; None for a password."""

    name: str
    user: str
    azure: bool
    identity: Identity | None
    tables: tuple[TableName, ...]
    by_function: bool
    keeps_schemas: bool = False
    scans_log: bool = False
    patterns: tuple[TablePattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Scaling:
    """`sessions`: of the queue, at most; None without sessions. `workers`: None when each router decides by its cores."""

    queue: str
    host: str | None
    ordering: Ordering
    tables: int
    sessions: int | None
    slots: int
    workers: int | None
    batch: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Everything; each file shows its part."""

    namespaces: tuple[Namespace, ...]
    locks: LockStore | None
    grants: tuple[Grant, ...]
    database: Database
    scaling: Scaling
    patterns: str = ""
    """Which further tables there may be, in words."""

    @property
    def provisioned(self) -> bool:
        """Whether a start looks at the entities, and so needs to manage them."""
        return any(grant.role is Role.OWNER and grant.who != "scaler" for grant in self.grants)


def needs_of(ingester: IngesterSettings, router: RouterBlock, selection: TableSelection | None = None) -> Needs:
    """`selection`: of the file, where `ingester` has the tables that patterns match now.

    Raises ConfigurationError when names of topics or the database cannot be made, because a variable is not set.
    """
    namespaces = tuple(_namespaces(ingester, router))
    locks = _locks(ingester)
    selection = selection or ingester.selection
    return Needs(
        namespaces,
        locks,
        tuple(_grants(ingester, router, namespaces, locks, all_topics=bool(selection.patterns))),
        replace(_database(ingester), patterns=selection.patterns),
        _scaling(ingester, router, namespaces[0].host),
        selection.wanted if selection.patterns else "",
    )


def _namespaces(ingester: IngesterSettings, router: RouterBlock) -> Iterator[Namespace]:
    """The queue's first. One where queue and topics share it, or where it is not known that they do not."""
    queue = ingester.queue
    origin = ingester.origin
    need = QueueNeed(queue.name, sessions=queue.ordering != "none", duplicate_window=queue.duplicate_window)
    host = _host(queue) or _host(router.source)
    keys = [each.by_key for each in (queue, router.source, router.output)]
    if not on_topics(router.output):  # `dstream plan --outputs` says what it needs
        yield Namespace("bus", host, need, (), any(keys[:2]))
        return
    named = {origin.topic(table): table for table in ingester.streams}
    streams = streams_by_output(router.all_outputs.values(), router.route, origin, named)[router.output.name]
    places = dict.fromkeys(stream.destination for stream in streams.values())
    topics = tuple(TopicNeed(place, router.subscriptions, router.duplicate_window) for place in places)
    elsewhere = _host(router.output)
    if host is None or elsewhere is None or host == elsewhere:
        yield Namespace("bus", host or elsewhere, need, topics, any(keys))
        return
    yield Namespace("bus", host, need, (), any(keys[:2]))
    yield Namespace("topics_bus", elsewhere, None, topics, keys[2])


def _host(bus: BusSettings) -> str | None:
    try:
        host = bus.where
    except ConfigurationError:
        return None
    return host if ".servicebus." in host else None


def _locks(ingester: IngesterSettings) -> LockStore | None:
    locks = ingester.locks
    if not isinstance(locks, AzureBlobLockSettings):
        return None
    url = locks.account_url
    host = None if url is None else url.removeprefix("https://").partition("/")[0]
    account = host.partition(".")[0] if host is not None and ".blob." in host else None
    return LockStore(account, locks.container_name, by_key=url is None)


def _grants(
    ingester: IngesterSettings,
    router: RouterBlock,
    namespaces: tuple[Namespace, ...],
    locks: LockStore | None,
    *,
    all_topics: bool,
) -> Iterator[Grant]:
    """As docs/install.md lists them. Data Owner includes the others. `all_topics`: also those of tables to come."""
    first, last = namespaces[0].symbol, namespaces[-1].symbol
    if ingester.queue.provision == "none":
        yield Grant("ingester", Role.SENDER, "queue", first, "sends changes")
    else:
        yield Grant(
            "ingester", Role.OWNER, "namespace", first, f'ingester.queue.provision = "{ingester.queue.provision}"'
        )
    if router.provision == "none":
        yield Grant("router", Role.RECEIVER, "queue", first, "receives changes")
        if ingester.queue.most_packed > 1:
            yield Grant("router", Role.SENDER, "queue", first, "takes a poison change out of its pack: queue.pack")
        if not on_topics(router.output):
            pass
        elif all_topics:
            yield Grant("router", Role.SENDER, "namespace", last, "sends changes to topics, also of tables to come")
        else:
            yield Grant("router", Role.SENDER, "topics", last, "sends changes to their topics")
    else:
        for namespace in namespaces:
            why = f'router.provision = "{router.provision}"'
            yield Grant("router", Role.OWNER, "namespace", namespace.symbol, why)
    if locks is not None:
        yield Grant("ingester", Role.BLOBS, "container", "", "keeps the locks of tables")
    yield Grant("scaler", Role.OWNER, "queue", first, "KEDA reads the number of messages, which only this role may")


def _database(ingester: IngesterSettings) -> Database:
    address = ingester.db_connection_string
    known = address if isinstance(address, SqlAddress) else None
    identity = None if known is None else known.identity
    user = INGESTER if identity is not None else "dstream" if known is None or known.user in ("", "sa") else known.user
    name = ingester.db.database if known is not None else ingester.origin.database
    return Database(
        name=name,
        user=user,
        azure=known is not None and known.host.lower().endswith(_AZURE_SQL),
        identity=identity,
        tables=ingester.tables,
        by_function=ingester.query_mode == "function",
        keeps_schemas=ingester.keeps_schemas,
        scans_log=ingester.low_latency,
    )


_AZURE_SQL = (".database.windows.net", ".database.usgovcloudapi.net", ".database.chinacloudapi.cn")


def _scaling(ingester: IngesterSettings, router: RouterBlock, host: str | None) -> Scaling:
    ordering, tables = ingester.queue.ordering, len(ingester.streams)
    sessions = {"table": tables, "key": tables * ingester.queue.key_buckets, "none": None}[ordering]
    return Scaling(
        queue=ingester.queue.name,
        host=host,
        ordering=ordering,
        tables=tables,
        sessions=sessions,
        slots=router.slots,
        workers=router.workers,
        batch=router.batch,
    )
