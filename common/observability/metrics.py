"""Metrics as values, and as the text that Prometheus reads. The only module that imports prometheus_client.

A stage declares its metrics (`Metric`) and reports their values at a moment (`Sample`). Nothing is counted here, so counting costs the stages no
more than adding numbers. A sample must have the declared labels.
https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The format that every version of Prometheus reads."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for latencies, from an answer on the same machine to a minute."""
MESSAGES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
"""Bounds for sizes of batches."""


@dataclass(slots=True)
class Distribution:
    """How many measurements are at most each of `bounds` (ascending), or above all of them. Not thread-safe."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        at = next((place for place, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[at] += 1
        self.total += value

    def copy(self) -> Distribution:
        return Distribution(self.bounds, list(self.counts), self.total)

    def __add__(self, other: Distribution) -> Distribution:
        """The sum of both; their bounds must be equal."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Distribution(self.bounds, counts, self.total + other.total)


Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`name`: as Prometheus shows it, with `_total` for a counter. `about`: one line, also for the documentation."""

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()

    def __call__(self, value: float | Distribution, *labels: str) -> Sample:
        """Its present value, with the values of its labels in order."""
        if len(labels) != len(self.labels) or isinstance(value, Distribution) != (self.kind == "histogram"):
            raise ValueError(f"{self.name} is a {self.kind} with the labels {self.labels}")
        return Sample(self, labels, value)


@dataclass(frozen=True, slots=True)
class Sample:
    """A metric's value at a moment."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution


def exposition(samples: Iterable[Sample]) -> bytes:
    """The text for Prometheus: `samples`, and memory, processor time and open files of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(list(samples)))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


@dataclass(frozen=True, slots=True)
class Reading:
    """A value as another process reports it."""

    name: str
    labels: Mapping[str, str]
    value: float


def readings(text: str, names: Collection[str]) -> Iterator[Reading]:
    """Those of `names` in what another process exposes. The other lines are not parsed: reading costs what is wanted. Raises ValueError."""
    wanted = tuple(start for name in names for start in (f"{name}{{", f"{name} "))
    lines = "\n".join(line for line in text.split("\n") if line.startswith(wanted))
    for family in text_string_to_metric_families(f"{lines}\n"):
        for sample in family.samples:
            yield Reading(sample.name, sample.labels, float(sample.value))


def resident_bytes(statm: Path = Path("/proc/self/statm")) -> int | None:
    """The memory of this process in RAM (proc(5): the second number, in pages); None on a system without that file."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def documented(metrics: Sequence[Metric]) -> str:
    """The rows of a Markdown table about `metrics`."""
    rows = (f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.about} |" for m in metrics)
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows, ""])


class _Samples(Collector):
    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily] = {}
        for sample in self._samples:
            metric = sample.metric
            family = families.get(metric.name) or families.setdefault(metric.name, _family(metric))
            if isinstance(family, HistogramMetricFamily):
                assert isinstance(sample.value, Distribution)
                family.add_metric(sample.labels, buckets=_buckets(sample.value), sum_value=sample.value.total)
            else:
                assert not isinstance(sample.value, Distribution)
                family.add_metric(sample.labels, sample.value)
        yield from families.values()


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.about, labels=metric.labels)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.about, labels=metric.labels)
        case "histogram":
            return HistogramMetricFamily(metric.name, metric.about, labels=metric.labels)


def _buckets(found: Distribution) -> list[tuple[str, float]]:
    """Cumulative counts, as the format requires."""
    names, sums, so_far = [*map(str, found.bounds), "+Inf"], [], 0
    for count in found.counts:
        so_far += count
        sums.append(float(so_far))
    return list(zip(names, sums, strict=True))
