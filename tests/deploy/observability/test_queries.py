"""The reader of queries finds the mistakes that people make in them."""

from __future__ import annotations

import pytest

from tests.deploy.observability.queries import read

LAG = "dstream_ingester_lag_seconds"
CHANGES = "dstream_ingester_changes_total"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("max by (table) (dstream_ingester_lag)", "no metric has the name dstream_ingester_lag"),
        (f'{LAG}{{tabel="x"}}', "has no label tabel"),
        (f"max by (tabel) ({LAG})", "max by or without tabel"),
        (f"max by (table) (max by (job) ({LAG}))", "max by or without table"),
        (f"rate({LAG}[5m])", "rate() of dstream_ingester_lag_seconds, which is a gauge"),
        (f"deriv({CHANGES}[5m])", "is a counter"),
        (f"{CHANGES} > 5", "is a counter"),
        ("rate(dstream_ingester_slice_seconds[5m])", "no metric has the name"),
        ("histogram_quantile(0.9, sum(rate(dstream_ingester_slice_seconds_bucket[5m])))", "without the label le"),
        (f"{LAG} / dstream_ingester_retention_seconds", "never matches"),
        (f"{LAG} / on (table) dstream_ingester_retention_seconds", "on table, which is not on both sides"),
        (f"{LAG} and ignoring (table) dstream_ingester_connected", "use on()"),
        (f"max by (table ({LAG})", "parenthesis"),
    ],
)
def test_a_mistake_is_found(query: str, fault: str) -> None:
    assert fault in " ".join(read(query).faults)


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        (f"max by (job, table) ({LAG}) > 900", {"job", "table"}),
        (f"topk(5, sum by (table) (rate({CHANGES}[5m])))", {"table"}),
        (f"{LAG} < on (job) group_left () max by (job) (dstream_ingester_retention_seconds)", {"job", "namespace", "instance", "table"}),
        ("histogram_quantile(0.9, sum by (le) (rate(dstream_ingester_slice_seconds_bucket[5m])))", set()),
        ("changes(process_start_time_seconds[1h])", {"job", "namespace", "instance"}),
    ],
)  # fmt: skip
def test_a_good_query_has_no_fault_and_its_labels(query: str, labels: set[str]) -> None:
    reading = read(query)
    assert reading.faults == []
    assert reading.labels == frozenset(labels)
