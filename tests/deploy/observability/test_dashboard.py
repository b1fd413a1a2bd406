"""The dashboard: Grafana can import it, its queries name what exists, and a thousand tables do not drown it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.observability.queries import read

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "deploy" / "observability" / "dashboard.json").read_text()
)
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {each["name"] for each in DASHBOARD["templating"]["list"]}

UNITS = {"none", "s", "cps", "reqps", "bytes", "percentunit", "bool_yes_no"}
"""Grafana's names, https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats/categories.ts"""

every_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def queried(expr: str) -> str:
    """`expr` with values for Grafana's variables."""
    return (
        expr.replace("$__rate_interval", "5m").replace("$top", "10").replace("$namespace", ".*").replace("$job", ".*")
    )


@every_panel
def test_a_panel_asks_for_what_exists(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        reading = read(queried(target["expr"]))
        assert reading.faults == []
        assert reading.metrics, "it would be empty"
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert shown <= (reading.labels or set()), "a legend with a label that the query does not keep"


@every_panel
def test_a_panel_shows_only_the_chosen_deployment(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        selectors = re.findall(r"\b(?:dstream|process)_\w+(\{[^}]*\})?", target["expr"])
        assert all('namespace=~"$namespace", job=~"$job"' in each for each in selectors)
        assert set(re.findall(r"\$(\w+)", target["expr"])) <= VARIABLES | {"__rate_interval"}
        assert target["datasource"]["uid"] == "${datasource}"


@every_panel
def test_a_panel_is_explained_and_has_a_unit(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) > 20
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    unit, asked = panel["fieldConfig"]["defaults"]["unit"], " ".join(target["expr"] for target in panel["targets"])
    if unit == "s":
        assert "_seconds" in asked
    if unit in {"cps", "reqps"}:
        assert "rate(" in asked


@every_panel
def test_a_thousand_tables_are_cut_to_the_worst(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        labels = read(queried(target["expr"])).labels or frozenset()
        if {"table", "topic", "entity", "instance"} & labels:
            assert re.match(r"(top|bottom)k\(\$top, ", target["expr"])


def test_grafana_can_import_it() -> None:
    assert DASHBOARD["id"] is None, "an id is of one Grafana"
    assert DASHBOARD["uid"] == "dstream"
    assert isinstance(DASHBOARD["schemaVersion"], int)
    assert {"datasource", "namespace", "job", "top"} == VARIABLES
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_variables_name_what_exists() -> None:
    for each in DASHBOARD["templating"]["list"]:
        if each["type"] == "query":
            stages = re.findall(r"dstream_\((\w+)\|(\w+)\)_ready", each["definition"])
            assert stages == [("ingester", "router")]
            assert read("dstream_ingester_ready or dstream_router_ready").faults == []
