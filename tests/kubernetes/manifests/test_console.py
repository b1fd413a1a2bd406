"""A real API server takes the console's edits of its ConfigMap, and lets its account do nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import PermanentError
from desk.configuring.places.api_server import ApiServer
from desk.configuring.places.config_map import ConfigMapName, ConfigMapPlace
from desk.desk import Conflict
from tests.kubernetes.manifests import server
from tests.kubernetes.manifests.rendering import FOLDER, parsed, rendered, with_component

pytestmark = [
    pytest.mark.skipif(server.missing() is not None, reason=str(server.missing())),
    pytest.mark.timeout(600),
]

NAME = ConfigMapName("dstream", "dstream-config")
KINDS = ("Namespace", "ServiceAccount", "ConfigMap", "Role", "RoleBinding")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[server.ApiServer, ApiServer]]:
    """With the base and the component, and what a pod of its account would have."""
    with server.api_server() as found:
        folder = with_component("components/console", tmp_path_factory.mktemp("component"))
        objects = [each for each in parsed(rendered(folder)) if each["kind"] in KINDS]
        found.must(
            "apply",
            "--server-side",
            "--filename=-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )
        account = tmp_path_factory.mktemp("account")
        (account / "token").write_text(found.must("--namespace=dstream", "create", "token", "dstream-console"))
        (account / "ca.crt").write_bytes(found.authority.read_bytes())
        yield found, ApiServer("127.0.0.1", found.port, account)


def test_it_is_read_and_changed_and_only_in_the_version_that_was_read(
    api: tuple[server.ApiServer, ApiServer],
) -> None:
    cluster, pod = api
    place = ConfigMapPlace(NAME, pod.call)
    first = place.read()
    assert first.data == (FOLDER / "base" / "dstream.hcl").read_bytes()
    place.write(first.data + b"# more\n", first)
    stored = json.loads(cluster.must("--namespace=dstream", "get", "configmap", NAME.name, "--output=json"))
    assert stored["data"] == {"dstream.hcl": first.text + "# more\n"}
    with pytest.raises(Conflict, match="somebody else has changed it"):
        place.write(b"late", first)
    assert place.read().text.endswith("# more\n")


def test_its_account_may_do_nothing_else(api: tuple[server.ApiServer, ApiServer]) -> None:
    _, pod = api
    for name in (ConfigMapName("dstream", "another"), ConfigMapName("kube-system", "dstream-config")):
        with pytest.raises(PermanentError, match="is forbidden"):
            ConfigMapPlace(name, pod.call).read()
    for method, path in (
        ("GET", "/api/v1/namespaces/dstream/configmaps"),
        ("GET", "/api/v1/namespaces/dstream/secrets/dstream-secrets"),
        ("DELETE", "/api/v1/namespaces/dstream/configmaps/dstream-config"),
    ):
        assert pod.call(method, path).status == 403


def test_a_token_of_nobody_is_refused(api: tuple[server.ApiServer, ApiServer], tmp_path: Path) -> None:
    _, pod = api
    (tmp_path / "token").write_text("nobody")
    (tmp_path / "ca.crt").write_bytes((pod.account / "ca.crt").read_bytes())
    with pytest.raises(PermanentError, match="Unauthorized"):
        ConfigMapPlace(NAME, ApiServer(pod.host, pod.port, tmp_path).call).read()
