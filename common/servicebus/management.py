"""The management API of a namespace: its address, a client for it, and the meaning of its errors. Makes no request itself."""

from __future__ import annotations

import itertools
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.servicebus.management import ServiceBusAdministrationClient

from common.azure_amqp.address import Proxy, ServiceBusAddress, Way
from common.azure_amqp.dialling import unreachable, untrusted
from common.azure_amqp.refusals import read
from common.errors import ConfigurationError, DStreamError, PermanentError, Stopped, TransientError
from common.in_time import in_time
from common.retry import Backoff
from common.servicebus.errors import quiet_sdk

MANAGEMENT_TIMEOUT = 45.0
"""Seconds for one call to the management API, attempts and pages included."""

CONNECT_TIMEOUT, READ_TIMEOUT = 10.0, 20.0
"""Seconds for a connection and for the next octets of an answer. They end a call for which nobody waits any longer."""

PATIENCE = 15.0
"""Seconds for which a call is repeated while the service answers that it is busy, or that it does the same for another process."""

AT_ONCE = 16
"""Calls side by side; each takes about 0.1 s, and on the Standard tier ten of a namespace's 1,000 credits a second
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-throttling)."""

_AGAIN = Backoff(first=0.5, longest=4.0)

_CONFLICT = re.compile("40901|conflicting operation|clean ?up is still pending", re.IGNORECASE)
"""As users report it, https://github.com/rebus-org/Rebus.AzureServiceBus/issues/45 and https://github.com/Azure/azure-sdk-for-js/issues/6276."""

_MANAGE = (
    "this needs a policy with the Manage right, or an identity with the role Azure Service Bus Data Owner; without one, create the entities "
    'beforehand and set provision = "none"'
)

_NOT_CONNECTED = {"NewConnectionError", "ConnectTimeoutError", "ConnectTimeout"}
"""Errors of a connection on which nothing was sent yet; with a proxy, the connection is to the proxy."""

_DETAIL = re.compile("<Detail>(.*?)</Detail>")

_PROXY = "check proxy in the configuration (host, port, name and password), and that the proxy lets this machine out to port 443 of the namespace"

_REACH = (
    "check management_endpoint and proxy in the configuration (without the former the namespace itself is asked, over https, as is right on Azure), "
    "the namespace's name, and that a firewall lets this machine out to it (port 443)"
)

_T = TypeVar("_T")

Heard = Callable[[Mapping[str, str]], None]

EMULATOR_MANAGEMENT_PORT = 5300
"""The port of Microsoft's emulator, and DStream's, for the management API over plain HTTP."""


def management_address(address: ServiceBusAddress, endpoint: str | None) -> tuple[str, str]:
    """(scheme, host[:port]) of the management API. Raises ConfigurationError for an endpoint that is not an http(s) address."""
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ConfigurationError(
                [f"management_endpoint = {endpoint!r} is not an address such as https://NAME.servicebus.windows.net"]
            )
        return parts.scheme, parts.netloc
    if address.emulator:
        host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
        return "http", f"{host}:{EMULATOR_MANAGEMENT_PORT}"
    return "https", address.hostname


class _Redirected(RequestsTransport):  # type: ignore[misc]  # azure-core loads transports lazily: their type is unknown
    """Sends the administration client's requests to another address: that client knows only `https://` and the AMQP endpoint."""

    def __init__(
        self, scheme: str, netloc: str, heard: Heard | None = None, way: Way | None = None, **options: Any
    ) -> None:
        if way is not None and way.ca_file is not None:
            options["connection_verify"] = way.ca_file
        super().__init__(**options)
        self._proxies = None if way is None or way.proxy is None else {scheme: way.proxy.url()}
        self._base = f"{scheme}://{netloc}/"
        self._heard = heard

    def send(self, request: Any, **options: Any) -> Any:
        parts = urlsplit(request.url)  # a retry has the address that the first attempt was sent to
        request.url = self._base + parts.path.lstrip("/") + (f"?{parts.query}" if parts.query else "")
        response = super().send(request, **({} if self._proxies is None else {"proxies": self._proxies}), **options)
        if self._heard is not None:
            self._heard(response.headers)
        return response


def administration(
    address: ServiceBusAddress, endpoint: str | None, heard: Heard | None = None
) -> tuple[ServiceBusAdministrationClient, str]:
    """(a client of the management API, its address). Connects at the first call. Raises as `management_address` does.

    `heard` is called with the headers of each answer.
    """
    quiet_sdk()
    scheme, netloc = management_address(address, endpoint)
    transport = _Redirected(
        scheme, netloc, heard, address.way, connection_timeout=CONNECT_TIMEOUT, read_timeout=READ_TIMEOUT
    )
    options: dict[str, Any] = {"transport": transport, "retry_total": 2}
    if address.connection_string is not None:
        return ServiceBusAdministrationClient.from_connection_string(address.connection_string, **options), netloc
    assert address.identity is not None
    return ServiceBusAdministrationClient(address.host, address.identity, **options), netloc


def answered(call: Callable[[], _T], stop: threading.Event | None = None) -> _T:
    """The result of `call` to the administration client, within MANAGEMENT_TIMEOUT altogether. The client's own timeouts begin again with each
    octet that arrives and each attempt, and it has none for DNS. Raises TimeoutError, and Stopped once `stop` is set.
    """
    return in_time(MANAGEMENT_TIMEOUT, call, stop=stop)


def asked(doing: str, at: ServiceBusAddress, call: Callable[[], _T], *, stop: threading.Event | None = None) -> _T:
    """The result of `call` to the namespace `at`. It is repeated for PATIENCE while the service answers that it is busy.

    Raises as `managing`, and Stopped.
    """
    began, stop = time.monotonic(), stop or threading.Event()
    for attempt in itertools.count(1):
        try:
            with managing(doing, at):
                return answered(call, stop)
        except TransientError as error:
            if not isinstance(error.__cause__, HttpResponseError) or time.monotonic() - began > PATIENCE:
                raise  # the client has tried again already where no answer came
        if stop.wait(_AGAIN.delay(attempt)):
            raise Stopped("asked to stop")
    raise AssertionError("it counts without end")


def conflicting(error: HttpResponseError) -> bool:
    """Whether a 409 means that another process is creating or deleting the entity, not that it exists."""
    return _CONFLICT.search(str(error)) is not None


@contextmanager
def managing(doing: str, at: ServiceBusAddress) -> Iterator[None]:
    """Raises the administration client's exceptions as `management_error` translates them."""
    try:
        yield
    except (HttpResponseError, ServiceRequestError, ServiceResponseError, OSError) as error:
        raise management_error(error, doing, at) from error


def management_error(error: Exception, doing: str, at: ServiceBusAddress) -> DStreamError:
    """Translates the administration client's exceptions by what a caller can do about them. `at`: the namespace."""
    said = _said(error)
    text = f"{doing}: {said}"
    status = getattr(error, "status_code", None)
    if isinstance(error, ClientAuthenticationError) or status in {401, 403}:
        found = read(said, at.credential)
        if found is None or "lacks the right" in found.text:
            return PermanentError(f"{doing}: the right Manage is missing ({said})", hint=_MANAGE)
        return PermanentError(f"{doing}: {found.text} ({said})", hint=found.hint)
    proxy = at.way.proxy
    if status is None and proxy is not None and (trouble := _of_the_proxy(error, proxy)) is not None:
        return TransientError(f"{doing}: {trouble}", hint=_PROXY)
    if status is None and (cause := _of_the_network(error)) is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            told = untrusted("the management API", cause)
            return TransientError(f"{doing}: {told.message}", hint=told.hint)
        if isinstance(cause, socket.gaierror):
            return TransientError(f"{doing}: this name cannot be resolved", hint=_REACH)
        return TransientError(f"{doing}: {unreachable('the management API', cause).message}", hint=_REACH)
    if isinstance(error, HttpResponseError) and status is not None and 400 <= status < 500 and status not in {408, 429}:
        return PermanentError(text)
    return TransientError(text)


def _said(error: Exception) -> str:
    """The service's words without the XML and the client's text around them."""
    text = " ".join(str(error).split())
    detail = _DETAIL.search(text)
    return (f"status {getattr(error, 'status_code', None)}: {detail[1]}" if detail else text)[:500]


def _of_the_network(error: BaseException) -> OSError | None:
    """The socket's own error, without those that the HTTP client has wrapped it in; None when there is none."""
    kinds = (socket.gaierror, ConnectionError, TimeoutError, ssl.SSLCertVerificationError)
    return next((each for each in _wrapped(error) if isinstance(each, kinds)), None)


def _of_the_proxy(error: BaseException, proxy: Proxy) -> str | None:
    """What is wrong with the proxy, if it could not be reached or has refused; None when the fault lies behind it.

    The errors are of requests and urllib3, and are recognised by name because neither is imported here.
    """
    met = list(_wrapped(error))
    kinds = {type(each).__name__ for each in met}
    cause = _of_the_network(error)
    if isinstance(cause, socket.gaierror):
        return f"the name of the proxy {proxy} cannot be resolved"
    if cause is not None and kinds & _NOT_CONNECTED:
        return unreachable(f"the proxy {proxy}", cause).message
    if "ProxyError" not in kinds:
        return None
    return f"the proxy {proxy} does not let the request through: {' '.join(str(met[-1]).split())[:200]}"


def _wrapped(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it wraps, from the outside in."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        below = (getattr(one, "inner_exception", None), getattr(one, "reason", None), one.__cause__, one.__context__)
        waiting += [each for each in (*below, *one.args) if isinstance(each, BaseException)]
