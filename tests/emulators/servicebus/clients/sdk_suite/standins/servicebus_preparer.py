"""Found by the SDK's tests under the name that they import."""

from tests.emulators.servicebus.clients.sdk_suite.resources import *  # noqa: F403
