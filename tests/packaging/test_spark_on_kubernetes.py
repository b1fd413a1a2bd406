"""The component that runs Spark's executors as pods: its files agree with each other and with the code. tests/kubernetes/spark runs it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dstream.config import load_ingester
from ingester.blocks.spark import RESULTS_PORT
from ingester.spark.conf import spark_settings
from tests.kubernetes.manifests.rendering import FOLDER, containers, kubectl, only, parsed, rendered, templates
from tests.kubernetes.spark.overlay import COMPONENT, configuration, written

pytestmark = pytest.mark.skipif(kubectl() is None, reason="kubectl, which renders the manifests, is not on PATH")

_PORTS = ("spark.driver.port", "spark.blockManager.port", RESULTS_PORT)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return parsed(rendered(written(tmp_path_factory.mktemp("overlay"), "spark")))


_ADDRESS = {"POD_IP": "10.0.0.7", "POD_NAME": "dstream-ingester-1", "POD_NAMESPACE": "spark"}


def _settings(folder: Path) -> dict[str, str]:
    """What Spark is started with in the pod."""
    path = folder / "dstream.hcl"
    path.write_text(configuration())
    given = {
        "DSTREAM_INGEST_CONNECTION_STRING": "Endpoint=sb://servicebus;SharedAccessKeyName=k;SharedAccessKey=key;UseDevelopmentEmulator=true;",
        "DSTREAM_DB_CONNECTION_STRING": "sqlserver://sa:p@sqlserver:1433?database=demo&encrypt=disable",
        "DSTREAM_LOCKS_CONNECTION_STRING": "UseDevelopmentStorage=true",
    }
    spark = load_ingester(path, given).spark
    assert spark.master == "k8s://https://kubernetes.default.svc"
    return spark_settings(spark.master, spark.conf, local_dir=folder, log4j=folder, environment=_ADDRESS)


def test_settings_name_what_the_component_brings(objects: list[Any], tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    template = templates(objects)["dstream-ingester"]
    [ingester] = containers(template)
    variables = {
        each["name"]: each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") for each in ingester["env"]
    }
    fields = {"POD_IP": "status.podIP", "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    assert fields.items() <= variables.items()
    assert settings["spark.kubernetes.driver.pod.name"] == _ADDRESS["POD_NAME"]
    assert settings["spark.kubernetes.namespace"] == _ADDRESS["POD_NAMESPACE"]
    assert settings["spark.driver.host"] == _ADDRESS["POD_IP"]
    [mount] = [each for each in ingester["volumeMounts"] if each["name"] == "spark"]
    files = only(objects, "ConfigMap", "dstream-spark")["data"]
    folder, _, file = settings["spark.kubernetes.executor.podTemplateFile"].rpartition("/")
    assert (folder, file in files) == (mount["mountPath"], True)
    assert f"- name: {settings['spark.kubernetes.executor.podTemplateContainerName']}\n" in files[file]


def test_the_drivers_ports_are_fixed_named_and_let_through(objects: list[Any], tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    [ingester] = containers(templates(objects)["dstream-ingester"])
    opened = [each["containerPort"] for each in ingester["ports"] if each["name"].startswith("spark-")]
    assert opened == [int(settings[name]) for name in _PORTS]
    policy = (FOLDER / "components/spark-network-policies/policies.yaml").read_text()
    assert f"port: {opened[0]}\n          endPort: {opened[-1]}\n" in policy


def test_the_driver_may_manage_pods_of_its_namespace_and_nothing_else(objects: list[Any]) -> None:
    role = only(objects, "Role", "dstream-spark-driver")
    verbs = ["create", "get", "list", "watch", "delete", "deletecollection"]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    binding = only(objects, "RoleBinding", "dstream-spark-driver")
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", "dstream-spark-driver")
    assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [("ServiceAccount", "dstream-ingester")]
    assert {each["kind"] for each in objects}.isdisjoint({"ClusterRole", "ClusterRoleBinding"})


def test_an_executor_is_restricted_has_no_token_and_is_no_ingester() -> None:
    text = (COMPONENT / "executor.yaml").read_text()
    for line in (
        "automountServiceAccountToken: false",
        "runAsNonRoot: true",
        "type: RuntimeDefault",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "drop: [ALL]",
        "app.kubernetes.io/component: spark-executor",
        "command: [tini, --, /opt/dstream/bin/spark-executor]",
    ):
        assert line in text
    assert re.search(r"/opt/dstream/bin/spark-executor$", (FOLDER.parent / "Dockerfile").read_text(), re.MULTILINE)


def test_an_executor_signs_in_to_azure_as_the_ingester_does(objects: list[Any], tmp_path: Path) -> None:
    """With workload identity a pod needs the label, and the account that is bound to the identity."""
    account = _settings(tmp_path)["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert account == templates(objects)["dstream-ingester"]["spec"]["serviceAccountName"]
    assert 'azure.workload.identity/use: "true"' in (COMPONENT / "executor.yaml").read_text()
