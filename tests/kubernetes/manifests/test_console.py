"""A real API server takes the console's edits of its ConfigMap, and lets its account do nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import PermanentError
from desk.configuring.places.api_server import ApiServer
from desk.configuring.places.config_map import ConfigMapName, ConfigMapPlace
from desk.desk import Conflict
from tests.kubernetes.manifests import server
from tests.kubernetes.manifests.rendering import (
    FOLDER,
    console_with_changes,
    only,
    parsed,
    rendered,
    templates,
    with_component,
)
from tests.kubernetes.manifests.test_server_side import pod_of

pytestmark = [
    pytest.mark.skipif(server.missing() is not None, reason=str(server.missing())),
    pytest.mark.timeout(600),
]

NAME = ConfigMapName("dstream", "dstream-config")
KINDS = ("Namespace", "ServiceAccount", "ConfigMap", "Role", "RoleBinding")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[server.ApiServer, ApiServer]]:
    """With the base and the component, changes allowed, and what a pod of its account would have."""
    with server.api_server() as found:
        folder = console_with_changes(tmp_path_factory.mktemp("component"))
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
        ("PUT", "/api/v1/namespaces/dstream/configmaps/dstream-config"),
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


def test_read_only_it_reads_and_may_not_change(api: tuple[server.ApiServer, ApiServer], tmp_path: Path) -> None:
    """The Role as it is without the lines that allow changes, for as long as this test lasts."""
    cluster, pod = api
    place = ConfigMapPlace(NAME, pod.call)
    roles = [
        only(parsed(rendered(each)), "Role", "dstream-console") for each in (_plain(tmp_path), _changing(tmp_path))
    ]
    try:
        cluster.must("apply", "--server-side", "--filename=-", stdin=json.dumps(roles[0]))
        with pytest.raises(PermanentError, match="is forbidden"):
            _until_forbidden(place)
    finally:
        cluster.must("apply", "--server-side", "--filename=-", stdin=json.dumps(roles[1]))


def _plain(folder: Path) -> Path:
    (folder / "plain").mkdir()
    return with_component("components/console", folder / "plain")


def _changing(folder: Path) -> Path:
    (folder / "changing").mkdir()
    return console_with_changes(folder / "changing")


def _until_forbidden(place: ConfigMapPlace) -> None:
    """An API server learns of a changed Role after a moment."""
    for _ in range(40):
        found = place.read()
        place.write(found.data, found)
        time.sleep(0.25)


def test_the_restricted_profile_admits_its_pod(api: tuple[server.ApiServer, ApiServer], tmp_path: Path) -> None:
    cluster, _ = api
    template = templates(parsed(rendered(with_component("components/console", tmp_path))))["dstream-console"]
    assert cluster.refuses(json.dumps(pod_of("console", template))) is None
