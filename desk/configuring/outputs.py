"""Outputs and the routes that name them. Decides what an order means for the file; opens nothing.

Refuses to remove the default output, and one that a route names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from common.config.blocks import UNLABELLED
from common.config.words import quoted
from common.errors import ConfigurationError, PermanentError
from desk.configuring.allowed import Allowed, sent
from desk.configuring.applying import apply_settings, new_block, numbers, refused
from desk.configuring.hcl.document import Inner
from desk.configuring.hcl.draft import Draft, Path
from desk.configuring.rerouted import rerouted
from desk.configuring.secrets import asked_for, settings_shown
from desk.desk import Conflict, NotFound
from desk.documents.configuring import Output, OutputOrder
from router.outputs.registry import TYPES
from router.routing.settings import RouteBlock

_TYPE = "type"
_USUAL = "azure_service_bus"
_TO = "to"
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ONE_PROCESS = "console"


def outputs(draft: Draft) -> list[Output]:
    """The default one first."""
    router = _router(draft)
    paths = sorted(draft.paths(router, "output"), key=lambda path: draft.at(path).label is not None)
    return [_output(draft, router, path) for path in paths]


def put_output(draft: Draft, order: OutputOrder, *, new: bool, allowed: Allowed) -> list[str]:
    """Change `draft`, and return what a person should know."""
    router, name = _router(draft), order.name.strip()
    present = _path(draft, router, name)
    if new and present is not None:
        raise Conflict(f"adding the output {name}: it is there already", hint="change it, or take another name")
    if not new and present is None:
        raise NotFound(f"changing the output {name}: there is none with that name")
    if not _LABEL.fullmatch(name):
        raise ConfigurationError(["the name of an output is 1 to 64 of the characters A-Z a-z 0-9 - _"])
    if order.type not in TYPES:
        raise ConfigurationError([f"router.output.{name}.type must be one of {quoted(TYPES)}"])
    model: type[BaseModel] = TYPES[order.type]
    block = None if present is None else draft.block(present)
    settings, wrong = asked_for(model, order.settings, f"router.output.{name}", block)
    if _TYPE in settings:
        wrong.append("type: it stands beside the settings")
    moves = {} if block is None or _type_of(block) == order.type else {_TYPE: order.type}
    wrong += allowed.problems(model, block, {**settings, **moves}, f"router.output.{name}")
    refused(wrong)
    with draft.together():
        if present is None:
            others = list(draft.paths(router, "output"))
            made = new_block("output", name, model, {_TYPE: order.type, **settings})
            draft.add_block(router, made, behind=others[-1] if others else None, apart=True)
        else:
            with draft.alone(present) as (part, path):
                if moves:
                    part.put(path, _TYPE, order.type)
                apply_settings(part, path, model, settings)
        if order.routes is not None:
            _put_routes(draft, router, name, order.routes)
    waits = ["an output of type console is for one process: it waits for a restart while router.workers are several"]
    return [*(waits if order.type == _ONE_PROCESS else []), *sent(model, settings), *_remarks(draft, router, name)]


def remove_output(draft: Draft, name: str) -> list[str]:
    """As `put_output`."""
    router = _router(draft)
    if name.strip() == UNLABELLED:
        raise ConfigurationError(["the default output cannot be removed: changes without a route go there"])
    path = _path(draft, router, name.strip())
    if path is None:
        raise NotFound(f"removing the output {name}: there is none with that name")
    lines = [draft.block(route).line for route in _routes(draft, router, name.strip())]
    if lines:
        raise Conflict(
            f"removing the output {name}: it is named by the route on {numbers(lines)}"
            if len(lines) == 1
            else f"removing the output {name}: it is named by the routes on {numbers(lines)}",
            hint="change the output to have no routes first; where its changes go then is for the other routes to say",
        )
    draft.remove(path)
    return ["what waits for this output alone is no longer sent there"]


def exposed(old: Draft, new: Draft) -> Iterator[str]:
    """For a person, where changes go from now on that did not."""
    blocks = [None if path is None else each.block(path) for each in (old, new) for path in [_found(each)]]
    yield from rerouted(*blocks)


def _found(draft: Draft) -> Path | None:
    return draft.path((), "router") or draft.path((), "publisher")


def _router(draft: Draft) -> Path:
    found = _found(draft)
    if found is None:
        raise PermanentError(
            "reading the outputs: the file has no router block", hint="name the router's file with --config"
        )
    return found


def _path(draft: Draft, router: Path, name: str) -> Path | None:
    return draft.path(router, "output", label=None if name == UNLABELLED else name)


def _type_of(block: Inner) -> str:
    value = block.value_of(_TYPE)
    return value if isinstance(value, str) else _USUAL


def _output(draft: Draft, router: Path, path: Path) -> Output:
    block = draft.block(path)
    name, kind = block.label or UNLABELLED, _type_of(block)
    return Output(
        name=name,
        type=kind,
        settings=settings_shown(TYPES.get(kind), block, besides=(_TYPE,)),
        routes=[_route(draft.block(each)) for each in _routes(draft, router, name)],
        line=block.line,
    )


def _routes(draft: Draft, router: Path, name: str) -> list[Path]:
    found = list[Path]()
    for path in draft.paths(router, "route"):
        block = draft.at(path)
        named = block.value_of(_TO) if isinstance(block, Inner) else None
        if isinstance(named, list) and name in named:
            found.append(path)
    return found


def _route(block: Inner) -> dict[str, Any]:
    return settings_shown(RouteBlock, block)


def _put_routes(draft: Draft, router: Path, name: str, wanted: list[dict[str, Any]]) -> None:
    """The routes that name the output become `wanted`. One that is not wanted goes on without it if it names others, else it is removed."""
    wrong, missing = list[str](), list[dict[str, Any]]()
    unwanted = [(path, _route(draft.block(path))) for path in _routes(draft, router, name)]
    for number, each in enumerate(wanted, 1):
        given = {_TO: [name], **{key: value for key, value in each.items() if value is not None}}
        same = next((held for held in unwanted if held[1] == given), None)
        if same is not None:  # also with a mask, or an expression, as it was shown
            unwanted.remove(same)
            continue
        found, more = asked_for(RouteBlock, given, f"route {number}")
        wrong += more
        if not isinstance(found[_TO], list) or name not in found[_TO]:
            wrong.append(f'route {number}: "to" must name {name}')
        missing.append(found)
    refused(wrong)
    for path, _ in reversed(unwanted):
        to = draft.path(path, _TO)
        assert to is not None
        value = draft.block(path).value_of(_TO)
        if value == [name]:
            draft.remove(path)
        else:
            draft.remove_item(to, value.index(name))
    for each in missing:
        ordered = {key: each[key] for key in ("from", "when", _TO, "topic") if key in each}
        rest = {key: value for key, value in each.items() if key not in ordered}
        behind = [*draft.paths(router, "output"), *draft.paths(router, "route")]
        block = new_block("route", None, RouteBlock, {**ordered, **rest})
        draft.add_block(router, block, behind=max(behind, default=None), apart=True)


def _remarks(draft: Draft, router: Path, name: str) -> Iterator[str]:
    routes = _routes(draft, router, name)
    if name != UNLABELLED and not routes:
        yield f"no route names {name}: it gets nothing until one does"
    for path in routes:
        value = draft.block(path).value_of(_TO)
        if name != UNLABELLED and isinstance(value, list) and UNLABELLED not in value:
            yield f"the tables of the route on line {draft.block(path).line} do not go to the default output, unless another route sends them there"
