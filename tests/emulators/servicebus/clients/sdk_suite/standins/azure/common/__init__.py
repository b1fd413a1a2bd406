"""The two names of the retired package `azure.common` that the SDK's tests import; no test raises them."""

from __future__ import annotations


class AzureHttpError(Exception):
    """An answer of the service that is none of success."""


class AzureConflictHttpError(AzureHttpError):
    """Status 409."""
