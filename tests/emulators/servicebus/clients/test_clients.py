"""Clients that are not ours run one scenario against the emulator, each with its own idea of the protocol, with and without TLS."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulators.servicebus.clients import scenario
from tests.emulators.servicebus.clients.conftest import CLIENTS, HERE, Run
from tests.emulators.servicebus.clients.differences import LIMITS, expected

TLS_STEPS = scenario.with_tls("")
LEFT: dict[str, Any] = scenario.MESSAGE | {"timeToLive": 600000}


@pytest.mark.parametrize("step", sorted(scenario.STEPS | TLS_STEPS))
def test_a_step_gives_what_the_scenario_says(run: Run, step: str) -> None:
    if step in run.steps:
        assert run.results[step] == expected(run.client.name, step, run.tls, run.steps[step][1])


def test_what_a_client_sends_python_reads(run: Run) -> None:
    assert run.left == LEFT


def test_what_is_noted_as_different_names_clients_and_steps_that_there_are_and_differs() -> None:
    for entry in LIMITS:
        assert entry.client in {client.name for client in CLIENTS}
        [result] = [found for name, (_, found) in (scenario.STEPS | TLS_STEPS).items() if name == entry.step]
        assert entry.result != result


@pytest.mark.parametrize(
    "manifest", ["node/package.json", "node/package-lock.json", "go/go.mod", "go/go.sum", "sdk_suite/requirements.txt"]
)
def test_manifests_hold_versions_and_no_address(manifest: str) -> None:
    text = (HERE / manifest).read_text()
    assert "://" not in text
    assert "resolved" not in text
