"""The alert rules: they name what exists, say what an alert needs, fire when they should, and are the same for Kubernetes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.observability.queries import Reading, read

ROOT = Path(__file__).parents[3]
HERE = ROOT / "deploy" / "observability"
CASES = Path(__file__).parent / "alerts_test.yaml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((HERE / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
_FETCHED = Path(__file__).parent / ".cache" / "usr" / "bin" / "promtool"

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


@every_rule
def test_a_rule_names_what_exists(rule: dict[str, Any]) -> None:
    assert read(rule["expr"]).faults == []


@every_rule
def test_a_rule_says_what_an_alert_needs(rule: dict[str, Any]) -> None:
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in {"critical", "warning"}
    notes = rule["annotations"]
    assert notes.keys() == {"summary", "description", "runbook_url"}
    assert notes["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"
    assert unknown_labels(rule) == set()
    if read(rule["expr"]).labels:
        assert "$labels." in notes["description"], "whose trouble it is"


def unknown_labels(rule: dict[str, Any]) -> set[str]:
    """Labels in the texts that the expression does not keep: they would be empty."""
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    reading: Reading = read(rule["expr"])
    return named - (reading.labels or frozenset())


def test_a_text_with_a_label_that_the_expression_lost_is_found() -> None:
    expr = "max by (job) (dstream_ingester_lag_seconds)"
    assert unknown_labels({"expr": expr, "annotations": {"summary": "{{ $labels.table }} of {{ $labels.job }}"}}) == {
        "table"
    }


def test_names_are_unique() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


def test_each_rule_is_tried() -> None:
    tried = {case["name"] for case in yaml.safe_load(CASES.read_text())["tests"]}
    assert tried == {rule["alert"] for rule in RULES} | {"nothing is wrong"}


def test_kubernetes_has_the_same_rules() -> None:
    """One file is written by hand; `make rules` wraps it."""
    rules, wrapped = (HERE / name for name in ("alerts.yaml", "prometheusrule.yaml"))
    found = yaml.safe_load(wrapped.read_text())
    assert (found["apiVersion"], found["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert found["spec"] == yaml.safe_load(rules.read_text()), "run `make rules`"


def test_kustomize_has_the_rules_and_the_dashboard() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not here")
    built = subprocess.run([kubectl, "kustomize", str(HERE)], capture_output=True, text=True, timeout=60, check=True)
    found = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    assert found.keys() == {"PrometheusRule", "ConfigMap"}
    assert found["PrometheusRule"]["spec"] == yaml.safe_load((HERE / "alerts.yaml").read_text())
    assert found["ConfigMap"]["data"] == {"dstream.json": (HERE / "dashboard.json").read_text()}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    found = str(_FETCHED) if _FETCHED.exists() else shutil.which("promtool")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing: `make promtool` fetches it")
        pytest.skip("promtool is not here: `make promtool` fetches it")
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=150)


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", str(HERE / "alerts.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    done = promtool("test", "rules", str(CASES))
    assert done.returncode == 0, done.stdout + done.stderr
