"""Found by the SDK's tests under the name that they import."""

from tests.clients.servicebus.sdk_suite.testutils import *  # noqa: F403
