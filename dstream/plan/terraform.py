"""`dstream plan --terraform`: the same as the Bicep file, for the provider azurerm."""

from __future__ import annotations

from dataclasses import dataclass

from dstream.plan.needs import Grant, Needs
from dstream.plan.templates import of_azure


@dataclass(frozen=True, slots=True)
class _Assignment:
    """`target`: the scope, as an expression."""

    grant: Grant
    symbol: str
    target: str


def written(needs: Needs) -> str:
    return of_azure(
        "plan.tf",
        needs,
        grants=[_assignment(grant) for grant in needs.grants],
    )


def _assignment(grant: Grant) -> _Assignment:
    target = {
        "namespace": f"azurerm_servicebus_namespace.{grant.at}.id",
        "queue": "azurerm_servicebus_queue.queue.id",
        "topics": "each.value.id",
        "container": "azurerm_storage_container.container.id",
    }[grant.on]
    place = grant.at if grant.on == "namespace" else grant.on
    role = grant.role.rpartition(" ")[2].lower()
    return _Assignment(grant, f"{grant.who}_{role}_of_{place}", target)
