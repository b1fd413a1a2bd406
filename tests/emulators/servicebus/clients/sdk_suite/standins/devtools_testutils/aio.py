"""Found by the SDK's tests under the name that they import."""

from tests.emulators.servicebus.clients.sdk_suite.testutils import recorded_by_proxy as recorded_by_proxy_async

__all__ = ["recorded_by_proxy_async"]
