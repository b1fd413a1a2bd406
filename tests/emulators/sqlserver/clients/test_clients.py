"""Clients that are not ours run one scenario against the emulator, each with its own idea of the protocol, with and without TLS."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulators.sqlserver.clients import scenario
from tests.emulators.sqlserver.clients.conftest import CLIENTS, HERE, Client, Server
from tests.emulators.sqlserver.clients.differences import GAPS, LIMITS, expected

_ENCRYPTION = sorted(scenario.without_tls("") | scenario.with_tls(""))
_ZERO_LSN = "0x" + "00" * 10


@pytest.mark.parametrize("step", [name for name, (_, result) in scenario.STEPS.items() if result is not None])
def test_a_step_gives_what_the_scenario_says(client: Client, report: Any, step: str) -> None:
    assert report[step] == expected(client.name, step, scenario.STEPS[step][1])


def test_encryption_is_had_where_it_is_offered_and_only_with_the_right_certificate(
    server: Server, client: Client, report: Any
) -> None:
    found = {name: report[name] for name in _ENCRYPTION if name in server.steps}
    assert found == {name: result for name, (_, result) in server.steps.items() if name in _ENCRYPTION}


def test_changes_are_read_in_commit_order_with_the_log_positions_that_hold_them_apart(report: Any) -> None:
    [rows] = report["read changes"]
    assert [(row[2], row[4], row[5]) for row in rows] == scenario.CHANGES
    insert, _, before, after, delete = rows
    assert all(len(lsn) == 22 and row[1] < row[0] for row in rows for lsn in row[:2])
    assert insert[0] == rows[1][0] < before[0] == after[0] < delete[0]
    assert insert[1] < rows[1][1] < before[1] == after[1] < delete[1]
    assert [row[3] for row in rows] == ["0x03", "0x03", "0x02", "0x02", "0x03"]
    [[(low, high)]] = report["read bounds"]
    assert _ZERO_LSN < low <= insert[0]
    assert delete[0] <= high


def test_what_is_noted_as_different_names_clients_and_steps_that_there_are() -> None:
    for entry in (*LIMITS, *GAPS):
        assert entry.client in {client.name for client in CLIENTS}
        assert entry.step in scenario.STEPS
        assert bool(entry.cells) is (entry.result is None)


@pytest.mark.parametrize(
    "manifest", ["python/requirements.txt", "node/package.json", "node/package-lock.json", "java/pom.xml", "go/go.mod", "go/go.sum"]
)  # fmt: skip
def test_manifests_hold_versions_and_no_address(manifest: str) -> None:
    text = (HERE / manifest).read_text()
    assert "://" not in text
    assert "resolved" not in text
