"""Each import contract can break: one violation of each is planted in a copy of the sources, and every one must be found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("dstream", "desk", "ingester", "router", "common", "emulators")

PLANTED: Mapping[str, tuple[str, str]] = {
    "The command line knows the desk, the desk both stages; the stages know only what they share": (
        "router/tally.py",
        "ingester.change",
    ),
    "Production never imports an emulator; even the demo only starts them": (
        "dstream/demo/schema.py",
        "emulators.sqlserver",
    ),
    "The emulators know nothing of DStream, nor of the clients that connect to them": (
        "emulators/servicebus/server.py",
        "common.errors",
    ),
    "Inside the ingester data flows one way": ("ingester/change.py", "ingester.driver.schedule"),
    "In no folder do siblings need each other in a circle": (
        "router/publishing/publisher.py",
        "router.publishing.publishers",
    ),
    "Of the ingester's adapters only the wiring, the check and the plan know": (
        "ingester/driver/schedule.py",
        "ingester.sqlserver.literals",
    ),
    "One module chooses the type of bus; everything else knows its port": (
        "ingester/worker.py",
        "common.servicebus.namespace",
    ),
    "Of connections to Azure's AMQP services only their adapters know": (
        "router/worker.py",
        "common.azure_amqp.address",
    ),
    "One module chooses the types of outputs; everything else knows their port": (
        "router/app.py",
        "router.outputs.azure_service_bus.settings",
    ),
    "One owner of Spark": ("ingester/driver/dispatch.py", "pyspark"),
    "One owner of the SQL Server driver; the demo is an application of its own": (
        "ingester/sqlserver/probe.py",
        "pymssql",
    ),
    "One owner of the CEL library": ("ingester/transform.py", "cel_expr_python"),
    "Owners of the Kafka client": ("router/outputs/kafka/records.py", "confluent_kafka"),
    "Owners of PostgreSQL's client": ("router/outputs/webhook/answers.py", "psycopg"),
    "Owners of the HTTP client": ("router/outputs/webhook/answers.py", "httpx"),
    "Owners of the NATS client": ("router/outputs/nats/answers.py", "nats.errors"),
    "One owner of pyarrow": ("router/outputs/lines.py", "pyarrow"),
    "Owners of FastAPI, Starlette and uvicorn": ("desk/console/audited.py", "fastapi"),
    "One owner of OpenTelemetry": ("common/bus/traced.py", "opentelemetry.trace"),
    "Owners of gRPC and protobuf": ("desk/desk.py", "grpc"),
    "Metrics are values; one module knows the library that writes them out": ("router/metrics.py", "prometheus_client"),
    "Only adapters know the Azure SDK; the demo subscribes as anyone would": (
        "router/receiving/slot.py",
        "azure.servicebus",
    ),
    "The router does not need the ingester's dependencies": ("router/tally.py", "orjson"),
    "Inside the Service Bus emulator clients' links know entities, entities stores, stores messages, and never the "
    "other way round": ("emulators/servicebus/properties.py", "emulators.servicebus.server"),
    "Inside the Event Hubs emulator clients' links know hubs, hubs events, and never the other way round": (
        "emulators/eventhubs/event.py",
        "emulators.eventhubs.hub",
    ),
    "The Service Bus emulator, on whose AMQP the Event Hubs emulator rests, knows nothing of it": (
        "emulators/servicebus/throttle.py",
        "emulators.eventhubs.hub",
    ),
    "The SQL Server emulator: connections above the wire, Change Data Capture above the engine, the engine above T-SQL": (
        "emulators/sqlserver/results.py",
        "emulators.sqlserver.server",
    ),
    "What serves its connections knows the engine by its port alone": (
        "emulators/sqlserver/server.py",
        "emulators.sqlserver.tsql.reading.batch",
    ),
    "Its Change Data Capture knows the engine by the seam for extensions alone": (
        "emulators/sqlserver/cdc/procedures.py",
        "emulators.sqlserver.engine.session",
    ),
    "Inside its engine a statement knows its session by ports, and what is stored knows no statement": (
        "emulators/sqlserver/engine/locks.py",
        "emulators.sqlserver.engine.session",
    ),
    "No folder of the SQL Server emulator has a cycle": (
        "emulators/sqlserver/engine/locks.py",
        "emulators.sqlserver.engine.session",
    ),
    "Of AMQP the Service Bus emulator's entities, stores and rules know values, not the wire": (
        "emulators/servicebus/properties.py",
        "emulators.servicebus.amqp.frames",
    ),
}
"""For each contract of pyproject.toml a module, and what it must not import."""


def test_a_violation_of_each_contract_is_found(tmp_path: Path) -> None:
    for package in OURS:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for module, forbidden in PLANTED.values():
        with (tmp_path / module).open("a") as source:
            source.write(f"\nimport {forbidden}\n")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert set(PLANTED) == {contract["name"] for contract in contracts}, "each contract needs a violation here"
    assert broken(tmp_path) == set(PLANTED)


def broken(where: Path) -> set[str]:
    """Names of the contracts that the sources at `where` break."""
    ran = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=where,
        env=dict(os.environ, PYTHONPATH=str(where), COLUMNS="400"),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(r"^(.*) BROKEN", ran.stdout, re.MULTILINE))
