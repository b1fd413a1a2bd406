"""What an output on Elasticsearch or OpenSearch creates and needs, for a person. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.elasticsearch.index import body_of, index_of
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.port import Planned, Stream

_USES = ("read", "index", "delete", "auto_configure", "view_index_metadata")
"""Of Elasticsearch. `auto_configure` is what lets documents bring new fields."""
_OPENSEARCH_USES = ("crud", "indices:admin/mapping/put", "indices:admin/get", "indices:admin/exists")
_OPENSEARCH_CREATES = ("indices:admin/create", "indices:admin/aliases")


def planned(settings: ElasticsearchSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    """The indexes of `streams`, each once; and a role, which both products have under other names."""
    places = list(dict.fromkeys(stream.destination for stream in streams))
    creates = [f"index {index_of(place)} with the alias {place}" for place in places] if provision == "create" else []
    uses = [*_USES, *(["create_index", "manage"] if provision == "create" else [])]
    needs = [f"{', '.join(uses)} on {place} and {place}-*" for place in places]
    needs.append("monitor on the cluster, for dstream check alone")
    return Planned(
        creates, needs, "\n\n".join([*_role(settings, places, uses, provision), *_indexes(settings, places)])
    )


def _role(
    settings: ElasticsearchSettings, places: Sequence[str], uses: Sequence[str], provision: Provision
) -> list[str]:
    patterns = [each for place in places for each in (place, f"{place}-*")]
    if settings.type == "opensearch":
        actions = [*_OPENSEARCH_USES, *(_OPENSEARCH_CREATES if provision == "create" else [])]
        role: object = {
            "cluster_permissions": ["cluster_composite_ops", "cluster:monitor/main"],
            "index_permissions": [{"index_patterns": patterns, "allowed_actions": actions}],
        }
        return [_request("PUT", "/_plugins/_security/api/roles/dstream", role)]
    role = {"cluster": ["monitor"], "indices": [{"names": patterns, "privileges": list(uses)}]}
    return [_request("PUT", "/_security/role/dstream", role)]


def _indexes(settings: ElasticsearchSettings, places: Sequence[str]) -> list[str]:
    return [_request("PUT", f"/{index_of(place)}", body_of(settings, place)) for place in places]


def _request(method: str, path: str, body: object) -> str:
    """As the consoles of both products take it."""
    return f"{method} {path}\n{json.dumps(body, indent=2)}"
