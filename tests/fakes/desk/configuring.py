"""The port `Configuring` over the invented world: a file of which only entries and outputs are understood."""

from __future__ import annotations

import difflib
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from common.errors import ConfigurationError
from desk.desk import Actor, Conflict, NotFound
from desk.documents.configuring import Configuration, Edit, Output, OutputOrder, Revision, Source, SourceOrder
from tests.fakes.desk.world import World

TYPES: Final = (
    "azure_service_bus",
    "azure_event_hubs",
    "kafka",
    "nats",
    "webhook",
    "postgres",
    "elasticsearch",
    "file",
)
_SECRETS: Final = ("password", "connection_string", "token", "secret")


@dataclass(frozen=True, slots=True)
class _State:
    sources: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, tuple[str, Mapping[str, Any]]]

    def text(self) -> str:
        lines = ["# the shop's changes", "ingester {", '  db_type = "sqlserver"', "  tables  = ["]
        lines += [f"    {json.dumps(name, ensure_ascii=False)}," for name in self.sources]
        lines += ["  ]"]
        for name, settings in self.sources.items():
            lines += [f"  table {json.dumps(name, ensure_ascii=False)} {{"] if settings else []
            lines += [f"    {key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
            lines += ["  }"] if settings else []
        lines += ["}", ""]
        for name, (type, settings) in self.outputs.items():
            label = "" if name == "default" else f" {json.dumps(name, ensure_ascii=False)}"
            lines += [f"output{label} {{", f'  type = "{type}"']
            lines += [f"  {key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
            lines += ["}", ""]
        return "\n".join(lines)

    def revision(self) -> str:
        return hashlib.sha256(self.text().encode()).hexdigest()[:16]


@dataclass(slots=True)
class FakeConfiguring:
    world: World
    states: list[_State] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        sources: dict[str, dict[str, Any]] = {row.name: {} for row in self.world.rows[:8]}
        sources["billing.*"], sources["!billing.Carts"] = {}, {}
        sources["dbo.Orders"] = {"filter": "data.Total > 0", "poll_interval": "2s"}
        outputs: dict[str, tuple[str, Mapping[str, Any]]] = {
            "default": ("azure_service_bus", {"namespace": "contoso-changes.servicebus.windows.net"}),
            "search": ("elasticsearch", {"url": "https://search.internal:9200"}),
        }
        self.states.append(_State(sources, outputs))

    def configuration(self) -> Configuration:
        with self.lock:
            now = self.states[-1]
            return Configuration(
                place="/etc/dstream/dstream.hcl",
                revision=now.revision(),
                writable=True,
                text=now.text(),
                revisions=list(reversed(self.revisions)),
            )

    def sources(self) -> Sequence[Source]:
        return [self._source(name, settings) for name, settings in self.states[-1].sources.items()]

    def _source(self, name: str, settings: Mapping[str, Any]) -> Source:
        kind = "exclusion" if name.startswith("!") else "pattern" if set(name) & set("*?") else "table"
        prefix = name.lstrip("!").partition("*")[0].casefold()
        found = [row.name for row in self.world.rows if row.name.casefold().startswith(prefix)]
        return Source.model_validate(
            {"name": name, "kind": kind, "matches": found[:100] if kind == "pattern" else [], "settings": settings}
        )

    def outputs(self) -> Sequence[Output]:
        return [
            Output(
                name=name,
                type=type,
                settings=dict(settings),
                routes=[] if name == "default" else [{"tables": ["dbo.*"], "outputs": ["default", name]}],
            )
            for name, (type, settings) in self.states[-1].outputs.items()
        ]

    def put_source(self, order: SourceOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        if not order.name.strip("! "):
            raise ConfigurationError(["name: it is empty"])
        with self.lock:
            now = self.states[-1]
            _agree(order.name, now.sources, new=new)
            settings = {key: value for key, value in order.settings.items() if value is not None}
            to = _State({**now.sources, order.name: settings}, now.outputs)
            what = f"{'add' if new else 'change'} source {order.name}"
            return self._edit(to, what, revision, actor, dry_run=order.dry_run, reason=order.reason)

    def remove_source(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        with self.lock:
            now = self.states[-1]
            _agree(name, now.sources, new=False)
            to = _State({key: value for key, value in now.sources.items() if key != name}, now.outputs)
            return self._edit(to, f"remove source {name}", revision, actor, dry_run=dry_run, reason=reason)

    def put_output(self, order: OutputOrder, revision: str | None, actor: Actor, *, new: bool) -> Edit:
        if order.type not in TYPES:
            raise ConfigurationError([f"type: {order.type!r} is no type of output"], hint=f"one of {', '.join(TYPES)}")
        for key, value in order.settings.items():
            if any(word in key for word in _SECRETS) and not isinstance(value, dict):
                raise ConfigurationError([f"{key}: the value of a secret is refused"], hint='give {"env": "NAME"}')
        with self.lock:
            now = self.states[-1]
            _agree(order.name, now.outputs, new=new)
            settings = {key: value for key, value in order.settings.items() if value is not None}
            to = _State(now.sources, {**now.outputs, order.name: (order.type, settings)})
            what = f"{'add' if new else 'change'} output {order.name}"
            return self._edit(to, what, revision, actor, dry_run=order.dry_run, reason=order.reason)

    def remove_output(
        self, name: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None
    ) -> Edit:
        with self.lock:
            now = self.states[-1]
            _agree(name, now.outputs, new=False)
            if name == "default":
                raise ConfigurationError(["the default output cannot be removed"])
            to = _State(now.sources, {key: value for key, value in now.outputs.items() if key != name})
            return self._edit(to, f"remove output {name}", revision, actor, dry_run=dry_run, reason=reason)

    def undo(self, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None = None) -> Edit:
        with self.lock:
            if len(self.states) == 1:
                raise Conflict("there is no change to undo")
            return self._edit(self.states[-2], "undo", revision, actor, dry_run=dry_run, reason=reason)

    def _edit(
        self, to: _State, what: str, revision: str | None, actor: Actor, *, dry_run: bool, reason: str | None
    ) -> Edit:
        now = self.states[-1]
        if revision is not None and revision != now.revision():
            raise Conflict(f"the configuration is now {now.revision()}, not {revision[:64]}", hint="read it again")
        if not dry_run:
            self.states.append(to)
            self.revisions.append(
                Revision(revision=to.revision(), at=self.world.text(), by=actor.who, what=what, reason=reason)
            )
        lines = difflib.unified_diff(
            now.text().splitlines(), to.text().splitlines(), "dstream.hcl", "dstream.hcl", lineterm=""
        )
        return Edit(
            applied=not dry_run,
            dry_run=dry_run,
            revision=to.revision(),
            difference="\n".join(lines),
            taken_over="by ingester and router, within 10 s",
        )


def _agree(name: str, there: Mapping[str, object], *, new: bool) -> None:
    if new and name in there:
        raise Conflict(f"there is {name[:300]} already", hint="change it instead")
    if not new and name not in there:
        raise NotFound(f"there is no {name[:300]} in the configuration")
