"""Metrics as Prometheus reads them; the format's own parser is the judge."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from common.observability.metrics import Distribution, Metric, documented, exposition

SENT = Metric("dstream_test_sent_total", "counter", "Sent.", ("table",))
LAG = Metric("dstream_test_lag_seconds", "gauge", "Behind.")
TOOK = Metric("dstream_test_took_seconds", "histogram", "How long.")


def read(text: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_counters_and_gauges_are_told_with_their_labels() -> None:
    found = read(exposition([SENT(3, "dbo.A"), SENT(4, 'odd "name"\n\\'), LAG(1.5)]))
    assert found["dstream_test_sent_total", ("dbo.A",)] == 3
    assert found["dstream_test_sent_total", ('odd "name"\n\\',)] == 4
    assert found["dstream_test_lag_seconds", ()] == 1.5


def test_what_lies_on_a_bound_is_under_it_and_the_buckets_add_up() -> None:
    took = Distribution((0.1, 1.0))
    for seconds in (0.1, 0.5, 1.0, 7.0):
        took.add(seconds)
    found = read(exposition([TOOK(took)]))
    assert [found["dstream_test_took_seconds_bucket", (bound,)] for bound in ("0.1", "1.0", "+Inf")] == [1, 3, 4]
    assert (found["dstream_test_took_seconds_count", ()], found["dstream_test_took_seconds_sum", ()]) == (4, 8.6)


def test_the_process_itself_is_measured_too() -> None:
    assert read(exposition([]))["process_resident_memory_bytes", ()] > 0


def test_a_sample_that_is_not_as_declared_is_refused() -> None:
    with pytest.raises(ValueError, match="labels"):
        SENT(3)
    with pytest.raises(ValueError, match="histogram"):
        TOOK(3)


def test_a_copy_is_not_counted_into_afterwards() -> None:
    took = Distribution((1.0,))
    copy = took.copy()
    took.add(0.5)
    assert (copy.counts, took.counts) == ([0, 0], [1, 0])


def test_the_documentation_has_a_row_a_metric() -> None:
    assert documented([SENT]).splitlines()[-1] == "| `dstream_test_sent_total` | counter | `table` | Sent. |"
