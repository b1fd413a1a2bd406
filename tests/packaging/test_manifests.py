"""deploy/kubernetes agrees with the code: the configuration loads with what a pod's environment holds, commands exist, ports and pages answer."""

from __future__ import annotations

import base64
import itertools
import os
import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer

from common.errors import ConfigurationError
from desk.console.guard import PROBES
from dstream.cli import app
from dstream.commands.router import ROUTER_STOPS_WITHIN
from dstream.config import load_ingester, load_router
from dstream.demo.attached import target
from emulators.servicebus.__main__ import _parser as servicebus_parser
from emulators.sqlserver.__main__ import parse_arguments
from ingester.blocks.locks import AzureBlobLockSettings
from tests.azurite import server as azurite
from tests.kubernetes.manifests.rendering import (
    COMPONENTS,
    FOLDER,
    OVERLAYS,
    Manifest,
    console_with_changes,
    containers,
    kubectl,
    only,
    parsed,
    rendered,
    templates,
    with_component,
)

pytestmark = pytest.mark.skipif(kubectl() is None, reason="kubectl, which renders the manifests, is not on PATH")

_BUS = "Endpoint=sb://servicebus;SharedAccessKeyName=k;SharedAccessKey=key;UseDevelopmentEmulator=true;"
_SECRETS = {
    "db-connection-string": "sqlserver://sa:password@sqlserver:1433?database=demo&encrypt=disable",
    "ingest-connection-string": _BUS,
    "router-connection-string": _BUS,
    "locks-connection-string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://azurite:10000/a;",
}
_LOADERS = {"ingester": load_ingester, "router": load_router}
_EMULATORS: Mapping[str, Callable[[Sequence[str]], Namespace]] = {
    "emulators.sqlserver": parse_arguments,
    "emulators.servicebus": servicebus_parser().parse_args,
}
_PODS = [(overlay, stage) for overlay in OVERLAYS for stage in _LOADERS]


@pytest.fixture(scope="module")
def overlays() -> Mapping[str, list[Manifest]]:
    return {name: parsed(rendered(FOLDER / name)) for name in OVERLAYS}


def environment(container: Manifest) -> dict[str, str]:
    """What the container's variables hold, with secrets by their keys."""
    found = {}
    for each in container["env"]:
        source = each.get("valueFrom", {}).get("secretKeyRef")
        found[each["name"]] = each["value"] if source is None else _SECRETS[source["key"]]
    return found


def configured(objects: list[Manifest], folder: Path) -> Path:
    path = folder / "dstream.hcl"
    path.write_text(only(objects, "ConfigMap", "dstream-config")["data"]["dstream.hcl"])
    return path


def stage_of(objects: list[Manifest], stage: str) -> Manifest:
    [container] = containers(templates(objects)[f"dstream-{stage}"])
    return container


@pytest.mark.parametrize(("overlay", "stage"), _PODS)
def test_the_configuration_loads_with_what_the_pod_has_and_with_nothing_less(
    overlays: Mapping[str, list[Manifest]], overlay: str, stage: str, tmp_path: Path
) -> None:
    objects = overlays[overlay]
    path, variables = configured(objects, tmp_path), environment(stage_of(objects, stage))
    settings: Any = _LOADERS[stage](path, variables)
    assert not settings.remarks
    for name in (name for name in variables if name.endswith("_CONNECTION_STRING")):
        with pytest.raises(ConfigurationError, match=name):
            _LOADERS[stage](path, {key: value for key, value in variables.items() if key != name})


@pytest.mark.parametrize(("overlay", "stage"), _PODS)
def test_probes_ask_the_pages_at_the_port_that_is_configured(
    overlays: Mapping[str, list[Manifest]], overlay: str, stage: str, tmp_path: Path
) -> None:
    objects = overlays[overlay]
    container = stage_of(objects, stage)
    settings: Any = _LOADERS[stage](configured(objects, tmp_path), environment(container))
    assert container["ports"] == [{"name": "health", "containerPort": settings.health.port}]
    assert settings.health.host == "0.0.0.0"
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        name: {"path": path, "port": "health"}
        for name, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz"))
    }
    [port] = only(objects, "Service", f"dstream-{stage}")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (settings.health.port, "health")


@pytest.mark.parametrize(("overlay", "stage"), _PODS)
def test_the_configuration_is_a_directory_so_that_a_changed_one_arrives(
    overlays: Mapping[str, list[Manifest]], overlay: str, stage: str
) -> None:
    objects = overlays[overlay]
    template = templates(objects)[f"dstream-{stage}"]
    [container] = containers(template)
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "config"]
    [volume] = [each for each in template["spec"]["volumes"] if each["name"] == "config"]
    assert "subPath" not in mount
    assert volume["configMap"] == {"name": "dstream-config"}
    assert container["args"] == [stage, "--config", f"{mount['mountPath']}/dstream.hcl"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_commands_are_accepted_as_they_stand(overlays: Mapping[str, list[Manifest]], overlay: str) -> None:
    commands: Any = typer.main.get_command(app)
    for container in itertools.chain(*map(containers, templates(overlays[overlay]).values())):
        arguments = [_expanded(text, container) for text in container.get("args", ())]
        if not arguments:
            assert container["name"] == "azurite", "its image has the command: tests/packaging/test_images.py"
        elif "command" in container:
            assert container["command"][:-1] == ["tini", "--", "python", "-m"]
            assert _EMULATORS[container["command"][-1]](arguments).host == "0.0.0.0"
        else:
            name, *rest = arguments
            commands.commands[name].make_context(name, rest)


def _expanded(text: str, container: Manifest) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: environment(container)[found[1]], text)


@pytest.mark.parametrize(("overlay", "stage"), _PODS)
def test_a_stop_has_more_time_than_it_takes(overlays: Mapping[str, list[Manifest]], overlay: str, stage: str) -> None:
    spec = templates(overlays[overlay])[f"dstream-{stage}"]["spec"]
    assert timedelta(seconds=spec["terminationGracePeriodSeconds"]) >= 2 * timedelta(seconds=ROUTER_STOPS_WITHIN)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_gets_a_token_of_the_cluster(overlays: Mapping[str, list[Manifest]], overlay: str) -> None:
    for template in templates(overlays[overlay]).values():
        assert template["spec"]["automountServiceAccountToken"] is False


def test_the_development_overlay_is_whole(overlays: Mapping[str, list[Manifest]], tmp_path: Path) -> None:
    """Each image is of this project, each secret is there, and the demo finds its tables on the emulators' Services."""
    objects = overlays["overlays/development"]
    secret = only(objects, "Secret", "dstream-secrets")
    pods = [container for template in templates(objects).values() for container in containers(template)]
    assert {container["image"] for container in pods} == {
        f"localhost/dstream/{name}:dev" for name in ("ingester", "router", "demo", "azurite")
    }
    assert {key for container in pods for key in _keys(container)} == set(secret["data"]) == set(_SECRETS)
    [job] = containers(templates(objects)["demo"])
    found = target(configured(objects, tmp_path), environment(job))
    services = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Service"}
    assert found.login.port in [port["port"] for port in services[found.login.host]["ports"]]


def test_development_has_the_locks_of_production_on_an_azurite_of_its_own(
    overlays: Mapping[str, list[Manifest]], tmp_path: Path
) -> None:
    objects = overlays["overlays/development"]
    path = configured(objects, tmp_path)
    locks = load_ingester(path, environment(stage_of(objects, "ingester"))).locks
    assert isinstance(locks, AzureBlobLockSettings)
    key = base64.b64decode(only(objects, "Secret", "dstream-secrets")["data"]["locks-connection-string"]).decode()
    account, _, endpoint = key.rstrip(";").partition(";BlobEndpoint=")
    address = urlsplit(endpoint)
    [port] = only(objects, "Service", str(address.hostname))["spec"]["ports"]
    [container] = containers(templates(objects)["azurite"])
    assert port["port"] == address.port
    assert container["ports"] == [{"name": port["targetPort"], "containerPort": address.port}]
    assert azurite.connection_string(1).startswith(f"{account};"), "what every Azurite has"


def _keys(container: Manifest) -> Iterator[str]:
    for each in container.get("env", ()):
        if "valueFrom" in each:
            yield each["valueFrom"]["secretKeyRef"]["key"]


def test_the_production_overlay_holds_no_key(overlays: Mapping[str, list[Manifest]]) -> None:
    objects = overlays["overlays/production"]
    assert [each["metadata"]["name"] for each in objects if each["kind"] == "Secret"] == []
    keys = {key for template in templates(objects).values() for each in containers(template) for key in _keys(each)}
    assert keys == {"db-connection-string"}
    assert "replicas" not in only(objects, "Deployment", "dstream-router")["spec"]


def test_the_folder_that_the_page_describes_renders(tmp_path: Path) -> None:
    """deploy/README.md, step 3."""
    [text] = re.findall(r"```yaml\n(.*?)```", (FOLDER.parent / "README.md").read_text(), re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(text.replace("../../base", os.path.relpath(FOLDER / "base", tmp_path)))
    (tmp_path / "dstream.hcl").write_text("# mine")
    objects = parsed(rendered(tmp_path))
    assert only(objects, "ConfigMap", "dstream-config")["data"] == {"dstream.hcl": "# mine"}
    assert [stage_of(objects, stage)["image"] for stage in _LOADERS] == [
        f"registry.example.com/dstream/{stage}:0.1.0" for stage in _LOADERS
    ]


def test_the_page_names_each_folder_and_each_secret(overlays: Mapping[str, list[Manifest]]) -> None:
    page = (FOLDER.parent / "README.md").read_text()
    for folder in (*OVERLAYS, *COMPONENTS):
        assert f"`kubernetes/{folder}/`" in page
    for stage in _LOADERS:
        for key in _keys(stage_of(overlays["base"], stage)):
            assert f"--from-file={key}" in page


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_can_be_added_to_the_base(component: str, tmp_path: Path) -> None:
    assert rendered(with_component(component, tmp_path)) != rendered(FOLDER / "base")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return parsed(rendered(with_component("components/console", tmp_path_factory.mktemp("console"))))


def _options(container: Manifest) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, _, value in (each.partition("=") for each in container["args"][1:]):
        found.setdefault(name, []).append(value)
    return found


def _mounted(objects: list[Manifest], path: str) -> Manifest:
    """The volume that holds this file."""
    [container] = containers(templates(objects)["dstream-console"])
    [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == str(Path(path).parent)]
    assert "subPath" not in mount
    volumes: list[Manifest] = templates(objects)["dstream-console"]["spec"]["volumes"]
    [volume] = [each for each in volumes if each["name"] == mount["name"]]
    return volume


def test_the_console_s_command_is_accepted_and_reads_what_is_mounted(console: list[Manifest]) -> None:
    container = stage_of(console, "console")
    commands: Any = typer.main.get_command(app)
    commands.commands["console"].make_context("console", list(container["args"][1:]))
    options = _options(container)
    assert _mounted(console, options["--config"][0])["configMap"] == {"name": "dstream-config"}
    assert _mounted(console, options["--token-file"][0])["secret"]["secretName"] == "dstream-console"
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["DSTREAM_CONFIGMAP"] == "$(NAMESPACE)/dstream-config"
    page = (FOLDER.parent / "README.md").read_text()
    assert f"--from-file={Path(options['--token-file'][0]).name}" in page


def test_the_console_s_audit_log_outlives_its_pod(console: list[Manifest]) -> None:
    [path] = _options(stage_of(console, "console"))["--audit-file"]
    claim = _mounted(console, path)["persistentVolumeClaim"]["claimName"]
    assert only(console, "PersistentVolumeClaim", claim)["spec"]["accessModes"] == ["ReadWriteOnce"]
    deployment = only(console, "Deployment", "dstream-console")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


def test_the_console_scrapes_every_pod_of_both_stages(console: list[Manifest]) -> None:
    seen = {}
    for url in _options(stage_of(console, "console"))["--scrape"]:
        address = urlsplit(url)
        service = only(console, "Service", str(address.hostname))["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
        assert [port["port"] for port in service["ports"]] == [address.port]
        seen[service["selector"]["app.kubernetes.io/component"]] = address.port
    assert seen == {stage: stage_of(console, stage)["ports"][0]["containerPort"] for stage in _LOADERS}


def test_the_console_s_probes_ask_a_page_that_needs_no_token(console: list[Manifest]) -> None:
    container = stage_of(console, "console")
    assert container["ports"] == [{"name": "http", "containerPort": int(_options(container)["--port"][0])}]
    for name in ("startup", "liveness", "readiness"):
        found = container[f"{name}Probe"]["httpGet"]
        assert found["port"] == "http"
        assert found["path"] in PROBES
    [port] = only(console, "Service", "dstream-console")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8090, "http")


def test_the_console_may_do_no_more_than_the_stages_but_read_its_configmap(console: list[Manifest]) -> None:
    router, own = (templates(console)[f"dstream-{name}"]["spec"] for name in ("router", "console"))
    assert own["securityContext"].items() >= router["securityContext"].items()
    assert own["containers"][0]["securityContext"] == router["containers"][0]["securityContext"]
    [rule] = only(console, "Role", "dstream-console")["rules"]
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["configmaps"], ["dstream-config"], ["get"])
    assert "--allow-changes" not in stage_of(console, "console")["args"]


def test_what_the_component_shows_allows_changes(tmp_path: Path) -> None:
    objects = parsed(rendered(console_with_changes(tmp_path)))
    args = stage_of(objects, "console")["args"]
    assert args[-1] == "--allow-changes"
    commands: Any = typer.main.get_command(app)
    assert commands.commands["console"].make_context("console", args[1:]).params["allow_changes"] is True
    assert only(objects, "Role", "dstream-console")["rules"][0]["verbs"] == ["get", "patch"]


def test_the_console_s_policies_let_it_reach_the_health_ports(tmp_path: Path) -> None:
    objects = parsed(rendered(with_component("components/console-network-policies", tmp_path)))
    allowed = only(objects, "NetworkPolicy", "console-scrapes")["spec"]["ingress"][0]
    assert [port["port"] for port in allowed["ports"]] == ["health"]
    labels = allowed["from"][0]["podSelector"]["matchLabels"]
    assert labels == only(objects, "NetworkPolicy", "console")["spec"]["podSelector"]["matchLabels"]
