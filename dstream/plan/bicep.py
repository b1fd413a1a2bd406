"""`dstream plan --bicep`: a Bicep file for one resource group."""

from __future__ import annotations

from dataclasses import dataclass

from dstream.plan.needs import Grant, Needs, Role
from dstream.plan.templates import camel, of_azure

ROLES = {
    Role.SENDER: ("sender", "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39"),
    Role.RECEIVER: ("receiver", "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"),
    Role.OWNER: ("owner", "090c5cfd-751d-490a-894a-3ce6f1109419"),
    Role.BLOBS: ("blobContributor", "ba92f5b4-2d11-453d-a403-e96b0029c9fe"),
}
"""Names of variables, and ids that are the same in every subscription."""


@dataclass(frozen=True, slots=True)
class _Assignment:
    """`target`: the resource that the role is for."""

    grant: Grant
    symbol: str
    target: str
    role: str


def written(needs: Needs) -> str:
    used = dict.fromkeys(grant.role for grant in needs.grants)
    return of_azure(
        "plan.bicep",
        needs,
        roles=[(f"{ROLES[role][0]}Role", role.value, ROLES[role][1]) for role in used],
        grants=[_assignment(grant) for grant in needs.grants],
    )


def _assignment(grant: Grant) -> _Assignment:
    target = {"namespace": camel(grant.at), "topics": "topics[i]"}.get(grant.on, grant.on)
    place = camel(grant.at) if grant.on == "namespace" else grant.on
    role = ROLES[grant.role][0]
    symbol = f"{grant.who}{role[0].upper()}{role[1:]}Of{place[0].upper()}{place[1:]}"
    return _Assignment(grant, symbol, target, f"{role}Role")
