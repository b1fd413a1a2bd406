"""The `router` block (older name: `publisher`) and what the router needs of the `ingester` block, validated and frozen.

Needs no SQL Server password: names come from `ingester.server_name` and `ingester.database`, or from an address read for them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field

from common.bus.ports import Provision
from common.bus.settings import DuplicateWindow, OutputSettings
from common.buses import Connection
from common.config.bind import Bound, Document, UnsetPolicy, bind
from common.config.blocks import Labelled
from common.config.durations import Duration
from common.config.settings import Location, Settings
from common.config.sizes import MemorySize, Size
from common.config.values import Block, Problem
from common.cores import usable_cores
from common.names import Ordering, Origin, TableName
from common.observability.health_settings import HealthSettings
from common.table_selection import TablePattern, TableSelection
from common.topology import Topology, twice_listed
from router.outputs.around import Around
from router.outputs.blocks import Ingest, complaints, remarks, unordered, workers_unused
from router.outputs.places import streams_by_output
from router.outputs.port import Stream
from router.outputs.registry import OutputBlock
from router.outputs.replaced import problems as problems_of_routes
from router.outputs.replaced import remarks as remarks_of_routes
from router.routing.settings import RouteBlock, unknown_outputs

LEAST_MEMORY = Size(16 << 20)

OnPoison = Literal["dead_letter", "stop"]
UnknownDestination = Literal["dead_letter", "create"]

CREATES_NOTHING = 'it creates no topic, because router.unknown_destination is not "create"'
CREATE_OR_REMOVE = 'set router.unknown_destination = "create", or remove the setting'
"""What `creating_nothing` means, and how to fix it. (Changes under `create_under` wait all the same.)"""

MOST_WORKERS = 4
"""The most workers started by default. Each may have a link to every topic, and a namespace limits connections."""


def subscription_name(text: str) -> str:
    """Return a name that a subscription may have. Raises ValueError for others."""
    if not 1 <= len(text) <= 50 or not all((c.isalnum() and c.isascii()) or c in "._-" for c in text):
        raise ValueError("must be 1 to 50 of the characters A-Z a-z 0-9 . _ -")
    if not (text[0].isalnum() and text[-1].isalnum()):
        raise ValueError("must begin and end with a letter or digit")
    return text


def _in_lower_case(prefixes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Topics' names have no case at Service Bus, and DStream's own are in lower case."""
    return None if prefixes is None else tuple(prefix.lower() for prefix in prefixes)


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    if len({name.lower() for name in names}) < len(names):
        raise ValueError("names a subscription twice; Service Bus does not tell upper from lower case")
    return names


def _enough(size: Size) -> Size:
    if size < LEAST_MEMORY:
        raise ValueError(f"must be {LEAST_MEMORY} or more")
    return size


class RouterBlock(Settings):
    """The `router` block as it stands in the file."""

    older_names: ClassVar[Mapping[str, str]] = {"sessions": "slots"}

    source: Connection = Field(
        description="The namespace of the ingest queue; the queue's name is `ingester.queue.name`."
    )
    output: OutputBlock = Field(
        description=(
            "The default output: where changes go without a route. A namespace of Service Bus, which may be the source's, or another type of "
            "output, see outputs/README.md."
        )
    )
    outputs: Annotated[tuple[OutputBlock, ...], Labelled("output")] = Field(
        default=(), description='Further outputs, `output "LABEL" { ... }`. Routes name them by their labels.'
    )
    route: tuple[RouteBlock, ...] = Field(
        default=(),
        description="Which outputs get which changes; see routes.md. None, the default: everything goes to the default output.",
    )
    provision: Provision = Field(
        default="create",
        description=(
            "What to do with queue, topics and subscriptions at start: `create` missing ones, `verify` that all exist and fit, "
            "or `none` (no management call, no Manage right). The default is `create`, so that a first start works."
        ),
    )
    subscriptions: Annotated[
        tuple[Annotated[str, AfterValidator(subscription_name)], ...], AfterValidator(_each_once)
    ] = Field(
        default=("sub1",),
        description=(
            "Subscriptions created on each topic. `[]`: none. A topic without a subscription drops its messages, "
            "and a subscription that nobody reads fills its topic; `sub1` is the name in existing installations."
        ),
    )
    slots: int = Field(
        default=8,
        ge=1,
        le=512,
        description=(
            "Sessions worked on at once. 8 hide each other's round trips; each further one costs a thread and a link. The older name, "
            "`sessions`, still works."
        ),
    )
    prefetch: int = Field(
        default=200,
        ge=0,
        le=5000,
        description="Messages fetched ahead for each session. 200 fill a batch without waiting. 0: fetched only when needed, which is slow.",
    )
    memory: Annotated[MemorySize, AfterValidator(_enough)] = Field(
        default=Size(256 << 20),
        description=(
            "Memory of each worker for messages that are fetched ahead, worked on or parked; at least `16MB`. Large messages are fetched a few at "
            "a time to stay within it, whatever `prefetch` and `batch` are. A process takes about 60 MB more. `256MB` is enough for 8 sessions with "
            "the largest messages of Standard."
        ),
    )
    batch: int = Field(
        default=200,
        ge=1,
        le=5000,
        description="The most messages routed and settled together. After a crash, at most so many come again for each session.",
    )

    workers: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description=(
            "Processes that route side by side, each with `slots` of its own; Service Bus distributes the sessions among them. One Python "
            "process uses one core. None, the default: one for each core that this process may use, at most 4, because each may have a "
            "connection for every topic. 1: no further process is started."
        ),
    )
    on_poison: OnPoison = Field(
        default="dead_letter",
        description=(
            "What to do with a message that no retry can deliver: it cannot be read, names no known topic, or is larger than its topic accepts. "
            "`dead_letter`: it goes to the queue's dead-letter queue with a reason, and its session goes on. `stop`: its session stops there, with "
            "an error in the log, and its messages stay in the queue in their order until a restart or until the configuration names other topics; "
            "needs a queue with sessions. See guarantees.md."
        ),
    )
    unknown_destination: UnknownDestination = Field(
        default="dead_letter",
        description=(
            "What to do with a message for a topic that belongs to no configured table. `dead_letter`: it is poison after `unknown_grace`, see "
            "`on_poison`. `create`: a topic under `create_under` is created with its `subscriptions`, up to `create_at_most`; with `provision` "
            "other than `create` it must exist. A side topic, which DStream created for a snapshot, is used in any case unless `provision` is "
            "`none`. An invalid topic name, or the ingest queue's name, is poison in any case."
        ),
    )
    create_under: Annotated[tuple[str, ...] | None, AfterValidator(_in_lower_case)] = Field(
        default=None,
        description=(
            'With `unknown_destination = "create"`: prefixes of the topics that may be created, in any case; `[""]`: any name. None, '
            "the default: the prefix of this configuration's own tables, `SERVER.DATABASE.`. Any other topic stays unknown: a sender to "
            "the queue must not be able to write to every topic of the namespace."
        ),
    )
    create_at_most: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description=(
            'With `unknown_destination = "create"`: the most topics without a table that are created or used, counted by each process from its '
            "start. `100` is more than a forgotten list of tables needs, and keeps invented names from filling the namespace."
        ),
    )
    match_at_most: int = Field(
        default=5_000,
        ge=1,
        le=100_000,
        description=(
            "The most topics of tables that patterns in `tables` match, counted by each process from its start. Changes for a further one wait, "
            "with an error in the log. `5000` is half of what a namespace of Standard holds; a limit, because a sender to the queue could invent "
            "tables that match."
        ),
    )
    unknown_grace: Duration = Field(
        default=timedelta(minutes=5),
        description=(
            "How long a change for a topic that belongs to no configured table waits before it is poison. Meanwhile the router reads the "
            "configuration again and again; once it has the table, the changes go on in their order. `5m` covers a ConfigMap that reaches the "
            "router's pod after the ingester's. `0s`: poison at the first answer. See guarantees.md."
        ),
    )
    duplicate_window: DuplicateWindow = Field(
        default=timedelta(minutes=10),
        description=(
            "How long topics that DStream creates remember message ids, `20s` to `168h`. A send whose answer was lost is repeated "
            "until it is answered; if that takes longer than this, subscribers get the change twice. `10m` covers most outages; a longer window "
            "costs throughput. Existing topics keep theirs. The queue has its own, `ingester.queue.duplicate_window`."
        ),
    )
    health: HealthSettings | None = Field(
        default=None, description="Where this stage serves metrics and health. None, the default: no port is opened."
    )

    @property
    def all_outputs(self) -> Mapping[str, OutputSettings]:
        """By name, the default first."""
        return {each.name: each for each in (self.output, *self.outputs)}

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        return unknown_outputs(given)


class RouterSettings(RouterBlock):
    """All that the router runs on."""

    workers: int = 1
    queue_name: str
    ordering: Ordering
    most_packed: int = 1
    queue_duplicate_window: timedelta = timedelta(minutes=10)
    topics_begin: tuple[str, ...] = ()
    """Prefixes of this configuration's own topics; empty: any name."""
    create_under: tuple[str, ...] = ()
    creating_nothing: tuple[str, ...] = ()
    """Settings in the file about topics to create, although none is created."""
    topics: Mapping[str, TableName]
    selection: TableSelection = TableSelection()
    """What patterns match besides `topics`."""
    origin: Origin | None = None
    """None: no pattern matches."""

    @property
    def streams(self) -> Mapping[str, Mapping[str, Stream]]:
        """By output, the default first: the streams of `topics` that the routes give it, by their keys. Outputs that get nothing are left out."""
        return streams_by_output(self.all_outputs.values(), self.route, self.origin, self.topics)

    @property
    def around(self) -> Around:
        """What outputs may need of these settings."""
        return Around(self.subscriptions, self.duplicate_window, self.ordering)

    def matches(self, topic: str, told: TableName | None) -> bool:
        """Whether a pattern matches the table of `topic`, in lower case. `told`: the table of a change for it; a long topic does not show its own."""
        return self.finding(topic, told) is not None

    def finding(self, topic: str, told: TableName | None) -> TablePattern | None:
        """The pattern that does."""
        if self.origin is None or not self.selection.patterns:
            return None
        table = self.origin.table_of(topic)
        if table is None and told is not None and self.origin.topic(told) == topic:
            table = told
        return None if table is None else self.selection.finding(table)

    def with_tables(self, tables: Sequence[TableName]) -> Self:
        """With the topics of `tables` among those that are named, for commands that know which tables patterns match."""
        assert self.origin is not None
        return self.model_copy(
            update={"topics": {**self.topics, **{self.origin.topic(table): table for table in tables}}}
        )

    @property
    def reaches(self) -> dict[str, object]:
        """The addresses that a start waits for, for the log."""
        to: dict[str, object] = {"output": self.output.where}
        if self.outputs:
            to = {"outputs": ", ".join(f"{each.name} at {each.where}" for each in self.all_outputs.values())}
        return {"queue": self.queue_name, "source": self.source.where, **to}


Latest = Callable[[], RouterSettings]
"""Returns the settings of the present configuration. Raises ConfigurationError (it cannot be used), or TransientError while it changes."""


def from_document(document: Document) -> Bound[RouterSettings]:
    """The router's settings, or every problem of its block and of its part of the ingester's."""
    block = bind_block(document, unset="refuse")
    topology = _topology(document)
    shared = topology.value
    problems = block.problems + topology.problems + ([] if shared is None else nameless(shared))
    if shared is not None and block.value is not None:
        problems += _sessionless(document, shared, block.value) + _out_of_reach(document, shared, block.value)
        problems += unordered(document, list(block.value.all_outputs.values()), shared.queue.ordering)
    if problems or block.value is None or shared is None:
        return Bound(None, problems)
    under = shared.origin.topics_begin if block.value.create_under is None else block.value.create_under
    settings = RouterSettings(
        **{
            **dict(block.value),
            "workers": 1 if one_process(block.value) else block.value.workers or min(usable_cores(), MOST_WORKERS),
            "create_under": under,
            "topics_begin": shared.origin.topics_begin,
            "creating_nothing": _creating_nothing(block.value),
        },
        queue_name=shared.queue.name,
        ordering=shared.queue.ordering,
        most_packed=shared.queue.most_packed,
        queue_duplicate_window=shared.queue.duplicate_window,
        topics={shared.origin.topic(table): table for table in shared.streams},
        selection=shared.selection,
        origin=shared.origin,
    )
    given = block.value
    routed = {name for route in given.route for name in route.to}
    routers, outputs = document.block("router", "publisher"), list(given.all_outputs.values())
    found = [*remarks(document, routers, outputs, routed)]
    if routers is not None:
        found += remarks_of_routes(document, routers, outputs, given.route, settings.topics, shared.selection)
    if routers is not None and (given.workers or 1) > 1 and (alone := one_process(given)) is not None:
        found.append(workers_unused(document.line(routers, "workers"), alone))
    return Bound(settings.with_remarks((*given.remarks, *found)), [])


def one_process(block: RouterBlock) -> OutputSettings | None:
    """An output that only one process can write to."""
    return next((output for output in block.all_outputs.values() if output.one_process), None)


def _creating_nothing(block: RouterBlock) -> tuple[str, ...]:
    if block.unknown_destination == "create":
        return ()
    return tuple(f"router.{name}" for name in ("create_under", "create_at_most") if name in block.model_fields_set)


def bind_block(document: Document, *, unset: UnsetPolicy) -> Bound[RouterBlock]:
    """The `router` or `publisher` block by itself."""
    block = document.block("router", "publisher")
    if block is None:
        return Bound(None, [Problem(1, 'block "router" is missing')])
    bound = bind(block, RouterBlock, unset=unset)
    if bound.value is None:
        return bound
    found = problems_of_routes(document, block, list(bound.value.all_outputs.values()), bound.value.route)
    return Bound(None, found) if found else bound


def nameless(shared: Topology) -> list[Problem]:
    """The problem of a configuration whose topics have no name yet, because a variable is not set."""
    if (unset := shared.nameless) is None:
        return []
    problem = Problem.unset(unset.line, "ingester.db_connection_string", unset)
    hint = "topic names need it: set it, or ingester.server_name and ingester.database"
    return [replace(problem, text=f"{problem.text}; {hint}")]


def _sessionless(document: Document, shared: Topology, block: RouterBlock) -> list[Problem]:
    if block.on_poison != "stop" or shared.queue.ordering != "none":
        return []
    found = document.block("router", "publisher")
    line = next((line for key, line, _ in found.entries if key == "on_poison"), found.line) if found else 1
    return [Problem(line, 'on_poison = "stop" needs sessions, and queue.ordering = "none" has none')]


def _out_of_reach(document: Document, shared: Topology, given: RouterBlock) -> list[Problem]:
    """Settings that do not give access to what the router needs there, and places that cannot be used."""
    block = document.block("router", "publisher")
    if block is None or shared.nameless is not None:
        return []
    reach = given.source.out_of_reach([shared.queue.name], "the queue is ")
    found = [
        Problem(document.line(block, "source", setting), f"{block.name}.source.{setting} {text}")
        for setting, text in filter(None, [reach])
    ]
    topics = {shared.origin.topic(table): table for table in shared.streams}
    streams = streams_by_output(given.all_outputs.values(), given.route, shared.origin, topics)
    ingest = Ingest(given.source.where, shared.queue.name, [str(each) for each in shared.selection.patterns])
    for name, output in given.all_outputs.items():
        found += complaints(document, block, output, streams.get(name, {}), ingest)
    return found


def _topology(document: Document) -> Bound[Topology]:
    """The ingester's block, reduced to what both stages read; the rest may want variables that are not set here."""
    block = document.block("ingester")
    if block is None:
        return Bound(None, [Problem(1, 'block "ingester" is missing: the router takes queue and tables from it')])
    shared = [entry for entry in block.entries if entry[0] in Topology.model_fields]
    return bind(Block(block.name, block.line, shared), Topology, unset="hold", checks=(twice_listed,))
