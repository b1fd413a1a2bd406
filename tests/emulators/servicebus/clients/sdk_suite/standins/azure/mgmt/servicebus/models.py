"""The one name of the resource manager's client that the SDK's tests use."""

from tests.emulators.servicebus.clients.sdk_suite.resources import AccessRights

__all__ = ["AccessRights"]
