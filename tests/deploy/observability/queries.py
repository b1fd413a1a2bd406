"""What is wrong with a PromQL expression: names and labels that no metric has, functions on the wrong kind, matches that never meet.

`labels` are followed from the selectors upwards, as Prometheus does it, so a label that an aggregation has removed is missing above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

from common.observability.metrics import exposition
from ingester.watch.metrics import METRICS as INGESTER
from router.metrics import METRICS as ROUTER

TARGET = frozenset({"namespace", "job", "instance"})
"""Labels that Prometheus gives every series by itself; `namespace` in Kubernetes."""

_OF_COUNTERS = frozenset({"rate", "irate", "increase"})
_OF_GAUGES = frozenset({"delta", "idelta", "deriv", "predict_linear"})
_KEEP = frozenset({"topk", "bottomk"})
_SETS = frozenset({"and", "or", "unless"})


@cache
def series() -> Mapping[str, tuple[str, frozenset[str]]]:
    """(kind, labels) of every series that a stage exposes."""
    found = {"ALERTS": ("gauge", frozenset({"alertname", "alertstate", "severity"}))}  # of Prometheus itself
    for metric in (*INGESTER, *ROUTER):
        labels = frozenset(metric.labels)
        if metric.kind != "histogram":
            found[metric.name] = metric.kind, labels
            continue
        found[f"{metric.name}_bucket"] = "counter", labels | {"le"}
        found[f"{metric.name}_sum"] = found[f"{metric.name}_count"] = "counter", labels
    for family in text_string_to_metric_families(exposition([]).decode()):  # of the process
        for sample in family.samples:
            found[sample.name] = family.type, frozenset(sample.labels)
    return found


@dataclass(slots=True)
class Reading:
    """One expression. `faults`: in words; `metrics`: the series it names; `labels`: of its result, None for a number."""

    faults: list[str] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    labels: frozenset[str] | None = None


def read(text: str) -> Reading:
    reading = Reading()
    try:
        reading.labels = _labels(promql.parse(text), reading, function="")
    except ValueError as error:
        reading.faults.append(str(error))
    return reading


def _labels(found: Any, reading: Reading, function: str) -> frozenset[str] | None:
    """`function`: the one whose argument this is."""
    match found:
        case promql.VectorSelector():
            return _selected(found, reading, function)
        case promql.MatrixSelector():
            return _selected(found.vector_selector, reading, function)
        case promql.ParenExpr() | promql.UnaryExpr():
            return _labels(found.expr, reading, function)
        case promql.SubqueryExpr():
            return _labels(found.expr, reading, "")
        case promql.AggregateExpr():
            return _aggregated(found, reading)
        case promql.Call():
            return _called(found, reading)
        case promql.BinaryExpr():
            return _combined(found, reading)
        case _:
            return None


def _selected(found: Any, reading: Reading, function: str) -> frozenset[str]:
    if found.name not in series():
        reading.faults.append(f"no metric has the name {found.name}")
        return TARGET
    reading.metrics.add(found.name)
    kind, labels = series()[found.name]
    labels |= TARGET
    reading.faults += [
        f"{found.name} has no label {each.name}" for each in found.matchers.matchers if each.name not in labels
    ]
    if kind == "counter" and function in _OF_GAUGES | {""}:
        reading.faults.append(f"{found.name} is a counter: it needs rate() or increase()")
    if kind != "counter" and function in _OF_COUNTERS:
        reading.faults.append(f"{function}() of {found.name}, which is a {kind}")
    return labels


def _is_new(found: Any) -> bool:
    """`counter unless counter offset 15m`: what a series that was not there before has counted. No increase() sees that."""
    sides = (found.lhs, found.rhs)
    return (
        str(found.op) == "unless"
        and all(isinstance(side, promql.VectorSelector) for side in sides)
        and found.lhs.name == found.rhs.name
        and found.lhs.offset is None
        and found.rhs.offset is not None
    )


def _aggregated(found: Any, reading: Reading) -> frozenset[str]:
    inner = _labels(found.expr, reading, str(found.op)) or frozenset()
    if str(found.op) in _KEEP:
        return inner
    named = frozenset(found.modifier.labels) if found.modifier is not None else frozenset()
    reading.faults += [f"{found.op} by or without {label}, which is not there" for label in sorted(named - inner)]
    without = found.modifier is not None and found.modifier.type == promql.AggModifierType.Without
    return inner - named if without else named & inner


def _called(found: Any, reading: Reading) -> frozenset[str] | None:
    name = found.func.name
    inner = [labels for each in found.args if (labels := _labels(each, reading, name)) is not None]
    if name == "histogram_quantile":
        if not all("le" in labels for labels in inner):
            reading.faults.append("histogram_quantile() without the label le")
        return inner[0] - {"le"}
    if name.startswith("absent"):
        return frozenset()
    return inner[0] if inner else None


def _combined(found: Any, reading: Reading) -> frozenset[str] | None:
    if _is_new(found):
        return _selected(found.lhs, reading, "last_over_time")
    left, right = (_labels(side, reading, "") for side in (found.lhs, found.rhs))
    if left is None or right is None:
        return left if right is None else right
    matching = found.modifier.matching if found.modifier is not None else None
    if matching is None:
        if left != right:
            reading.faults.append(f"{found.op} never matches: {sorted(left)} and {sorted(right)}")
        return left
    if matching.type != promql.LabelModifierType.Include:
        reading.faults.append("use on(), not ignoring(): a new label must not break the match")
    on = frozenset(matching.labels)
    reading.faults += [f"on {label}, which is not on both sides" for label in sorted(on - (left & right))]
    if str(found.op) in _SETS or found.modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left
    return on
