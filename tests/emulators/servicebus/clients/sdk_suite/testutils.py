"""What the SDK's tests import from `devtools_testutils`, for an emulator in place of Azure: nothing is recorded, everything runs.

Preparers, the means by which those tests ask for resources, are in `preparers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncSharedKeyCredential

from tests.emulators.servicebus.clients.sdk_suite.namespace import KEY, ROOT
from tests.emulators.servicebus.clients.sdk_suite.preparers import PowerShellPreparer, ResourceGroupPreparer

__all__ = [
    "AzureMgmtRecordedTestCase",
    "AzureRecordedTestCase",
    "CachedResourceGroupPreparer",
    "PowerShellPreparer",
    "RandomNameResourceGroupPreparer",
    "get_credential",
    "get_region_override",
    "recorded_by_proxy",
    "set_custom_default_matcher",
]

_Test = TypeVar("_Test", bound=Callable[..., Any])

CachedResourceGroupPreparer = RandomNameResourceGroupPreparer = ResourceGroupPreparer


class AzureMgmtRecordedTestCase:
    """The base class of the tests' classes."""

    @staticmethod
    def await_prepared_test(test: _Test) -> _Test:
        """Awaits an asynchronous test for preparers that cannot; these can."""
        return test


AzureRecordedTestCase = AzureMgmtRecordedTestCase


def get_credential(is_async: bool = False, **_: object) -> ServiceBusSharedKeyCredential | AsyncSharedKeyCredential:
    """The namespace's key in place of a Microsoft Entra identity, in the form that the administration clients take too."""
    return (AsyncSharedKeyCredential if is_async else ServiceBusSharedKeyCredential)(ROOT, KEY)


def get_region_override(default: str = "westus") -> str:
    """Where resources would be."""
    return default


def recorded_by_proxy(test: _Test) -> _Test:
    """Nothing is recorded."""
    return test


def set_custom_default_matcher(**_: object) -> None:
    """Nothing is played back."""
