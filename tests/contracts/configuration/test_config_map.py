"""A ConfigMap edited over TLS: against a small API server, which the real one's test in tests/kubernetes/manifests keeps honest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError
from desk.configuring.edited import EditedConfiguration
from desk.configuring.places import api_server
from desk.configuring.places.api_server import ApiServer
from desk.configuring.places.config_map import ConfigMapName, ConfigMapPlace
from desk.configuring.revisions import Revisions
from desk.desk import Actor, Conflict
from desk.documents.configuring import SourceOrder
from dstream.config import judge
from tests.worlds.kubernetes_api import Cluster, cluster

NAME = ConfigMapName.parse("dstream/dstream-config")
FILE = (Path(__file__).parents[3] / "dstream.hcl").read_text(encoding="utf-8")
ACTOR = Actor("ada@example.org", "http", "r1")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Cluster, ApiServer]]:
    with cluster(tmp_path) as (found, server):
        found.allowed.add(("dstream", "dstream-config"))
        found.put("dstream", "dstream-config", {"dstream.hcl": FILE, "other": "stays"})
        yield found, server


def test_an_edit_goes_to_the_api_server_and_is_taken_back(world: tuple[Cluster, ApiServer], tmp_path: Path) -> None:
    found, server = world
    place = ConfigMapPlace(NAME, server.call)
    desk = EditedConfiguration(
        place,
        Revisions(tmp_path / "state", place.name),
        judge=lambda text: judge(text, place.name, {}),
        matches=lambda text: [],
        now=lambda: "now",
    )
    order = SourceOrder(name="sales.Items", dry_run=False)
    edit = desk.put_source(order, desk.configuration().revision, ACTOR, new=True)
    data = found.maps["dstream", "dstream-config"]["data"]
    assert data == {"dstream.hcl": FILE.replace('"sales.Orders"]', '"sales.Orders", "sales.Items"]'), "other": "stays"}
    assert edit.taken_over.startswith("the kubelet brings a changed ConfigMap to the pods")
    assert desk.configuration().place == "ConfigMap dstream/dstream-config/dstream.hcl"
    found.renew("second-token")
    desk.undo(edit.revision, ACTOR, dry_run=False)
    assert found.maps["dstream", "dstream-config"]["data"]["dstream.hcl"] == FILE


def test_another_change_came_first(world: tuple[Cluster, ApiServer]) -> None:
    found, server = world
    place = ConfigMapPlace(NAME, server.call)
    seen = place.read()
    found.put("dstream", "dstream-config", {"dstream.hcl": "# another"})
    with pytest.raises(Conflict, match="somebody else has changed it"):
        place.write(b"mine", seen)
    assert place.read().text == "# another"


def test_what_is_not_allowed_or_not_there_names_what_to_do(world: tuple[Cluster, ApiServer]) -> None:
    found, server = world
    with pytest.raises(PermanentError, match=r"is forbidden.*bind the Role of deploy/kubernetes"):
        ConfigMapPlace(ConfigMapName("dstream", "another"), server.call).read()
    found.allowed.add(("dstream", "another"))
    with pytest.raises(PermanentError, match='configmaps "another" not found'):
        ConfigMapPlace(ConfigMapName("dstream", "another"), server.call).read()
    with pytest.raises(PermanentError, match=r"no text under this key \(it has dstream.hcl, other\)"):
        ConfigMapPlace(ConfigMapName("dstream", "dstream-config", "x.hcl"), server.call).read()
    found.token = "replaced"
    with pytest.raises(PermanentError, match="Unauthorized"):
        ConfigMapPlace(NAME, server.call).read()
    (found.account / "token").unlink()
    with pytest.raises(PermanentError, match="automountServiceAccountToken"):
        ConfigMapPlace(NAME, server.call).read()


def test_an_immutable_map_is_not_writable(world: tuple[Cluster, ApiServer]) -> None:
    found, server = world
    found.put("dstream", "dstream-config", {"dstream.hcl": FILE}, immutable=True)
    place = ConfigMapPlace(NAME, server.call)
    content = place.read()
    assert place.why_not() == f"{place.name}: it is marked as immutable"
    with pytest.raises(PermanentError, match="immutable"):
        place.write(b"x", content)


def test_another_authority_is_not_trusted(world: tuple[Cluster, ApiServer], tmp_path: Path) -> None:
    found, server = world
    (tmp_path / "other").mkdir()
    with cluster(tmp_path / "other") as (other, _):
        (found.account / "ca.crt").write_bytes((other.account / "ca.crt").read_bytes())
    with pytest.raises(PermanentError, match="its certificate is refused"):
        ConfigMapPlace(NAME, server.call).read()
    assert found.asked == [], "no token was sent"


def test_a_server_that_does_not_answer_has_a_deadline(
    world: tuple[Cluster, ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, server = world
    monkeypatch.setattr(api_server, "_SECONDS", 0.3)
    found.pause = 1.0
    with pytest.raises(TransientError, match="no answer within"):
        ConfigMapPlace(NAME, server.call).read()
    with pytest.raises(TransientError):
        ConfigMapPlace(NAME, ApiServer("127.0.0.1", 1, found.account).call).read()


def test_names() -> None:
    assert str(ConfigMapName.parse("a/b.c/d_E.hcl")) == "a/b.c/d_E.hcl"
    for text in ("a", "a/", "/b", "a/b/c/d", "a/B", "a/b/", "../x", "a/b c"):
        with pytest.raises(ConfigurationError, match="NAMESPACE/NAME"):
            ConfigMapName.parse(text)
    with pytest.raises(DStreamError, match="this is no pod"):
        ApiServer.of_pod({})
    assert ApiServer.of_pod({"KUBERNETES_SERVICE_HOST": "fd00::1"}).port == 443
