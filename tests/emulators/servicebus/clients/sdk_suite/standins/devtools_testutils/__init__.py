"""Found by the SDK's tests under the name that they import."""

from tests.emulators.servicebus.clients.sdk_suite.testutils import *  # noqa: F403
