"""The types of outputs: for each, the settings of its block, its adapter of `router.outputs.port.Output` and its plan. The one place to add another.

Nothing else names an adapter. Reading settings imports none, and so needs no client library: each type is an extra of the package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final

from common.bus.ports import Bus, Provision
from common.bus.settings import OutputSettings
from common.buses import bus_of
from common.config.by_type import ByType
from common.errors import ConfigurationError
from router.outputs.around import Around
from router.outputs.azure_event_hubs.settings import EventHubsOutput
from router.outputs.azure_service_bus.output import BusOutput
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.outputs.console.settings import ConsoleSettings
from router.outputs.elasticsearch.settings import ElasticsearchSettings
from router.outputs.file.settings import FileSettings
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.nats.settings import NatsSettings
from router.outputs.port import Output, Planned, Stream
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.webhook.settings import WebhookSettings

_DEFAULT = "azure_service_bus"

TYPES: Final[dict[str, type[OutputSettings]]] = {
    _DEFAULT: ServiceBusOutput,
    "servicebus": ServiceBusOutput,
    "console": ConsoleSettings,
    "kafka": KafkaOutputSettings,
    "postgres": PostgresSettings,
    "elasticsearch": ElasticsearchSettings,
    "opensearch": ElasticsearchSettings,
    "webhook": WebhookSettings,
    "nats": NatsSettings,
    "file": FileSettings,
    "azure_event_hubs": EventHubsOutput,
}
"""By the setting `type`. The first name of a type is also the name of its extra and of its page in docs/outputs/."""

OutputBlock = Annotated[OutputSettings, ByType(TYPES, default=_DEFAULT)]
"""The block of an output."""

OURS = frozenset({"common", "router"})


def output_of(settings: OutputSettings, around: Around | None = None, *, proven: bool = False) -> Output:
    """The output that `settings` name. Opens nothing.

    `proven`: another process has used it with the same right, so a refusal is transient. Raises ConfigurationError for an environment variable
    that is not set, an address or a file that cannot be used, and a client library that is not installed.
    """
    with installed(settings):
        match settings:
            case ServiceBusOutput():
                return BusOutput(bus_of(settings, proven=proven), settings, around or Around())
            case ConsoleSettings():
                from router.outputs.console.output import ConsoleOutput

                return ConsoleOutput(settings)
            case KafkaOutputSettings():
                from router.outputs.kafka.output import KafkaOutput

                return KafkaOutput(settings, proven=proven)
            case PostgresSettings():
                from router.outputs.postgres.output import PostgresOutput

                return PostgresOutput(settings)
            case ElasticsearchSettings():
                from router.outputs.elasticsearch.output import ElasticsearchOutput

                return ElasticsearchOutput(settings)
            case NatsSettings():
                from router.outputs.nats.output import NatsOutput

                return NatsOutput(settings)
            case WebhookSettings():
                from router.outputs.webhook.output import WebhookOutput

                return WebhookOutput(settings)
            case FileSettings():
                from router.outputs.file.output import FileOutput

                return FileOutput(settings)
            case EventHubsOutput():
                from router.outputs.azure_event_hubs.output import HubsOutput

                return HubsOutput(settings, proven=proven)
            case _:
                raise AssertionError(f"no adapter for {type(settings).__name__}")


def planned_of(
    settings: OutputSettings, streams: Sequence[Stream], provision: Provision, around: Around | None = None
) -> Planned:
    """What a start creates at the output, and what it needs. Pure."""
    match settings:
        case ServiceBusOutput():
            from router.outputs.azure_service_bus.plan import planned

            return planned(settings, streams, provision, around or Around())
        case ConsoleSettings():
            from router.outputs.console.plan import planned as planned_console

            return planned_console(settings, streams, provision)
        case KafkaOutputSettings():
            from router.outputs.kafka.plan import planned as planned_kafka

            return planned_kafka(settings, streams, provision)
        case PostgresSettings():
            from router.outputs.postgres.plan import planned as planned_postgres

            return planned_postgres(settings, streams, provision)
        case ElasticsearchSettings():
            from router.outputs.elasticsearch.plan import planned as planned_search

            return planned_search(settings, streams, provision)
        case NatsSettings():
            from router.outputs.nats.plan import planned as planned_nats

            return planned_nats(settings, streams, provision)
        case WebhookSettings():
            from router.outputs.webhook.plan import planned as planned_webhook

            return planned_webhook(settings, streams, provision)
        case FileSettings():
            from router.outputs.file.plan import planned as planned_files

            return planned_files(settings, streams, provision)
        case EventHubsOutput():
            from router.outputs.azure_event_hubs.plan import planned as planned_hubs

            return planned_hubs(settings, streams, provision)
        case _:
            raise AssertionError(f"no plan for {type(settings).__name__}")


def on_topics(settings: OutputSettings) -> bool:
    """Whether it writes to topics of Service Bus, which alone have subscriptions."""
    return isinstance(settings, ServiceBusOutput) and not settings.of_queues


def on_queues(settings: OutputSettings) -> bool:
    """Whether it writes to queues of Service Bus."""
    return isinstance(settings, ServiceBusOutput) and settings.of_queues


def bus_behind(output: Output) -> Bus | None:
    """The bus of an output that is one, for what no other has: side topics, subscriptions, storage."""
    return output.bus if isinstance(output, BusOutput) else None


@contextmanager
def installed(settings: OutputSettings) -> Iterator[None]:
    """A library that is missing is a problem of the installation, with its remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in OURS:
            raise
        kind = first_name(settings)
        raise ConfigurationError(
            [f'output {settings.name}: type "{kind}" needs the library {missing}, which is not installed'],
            hint=f"pip install 'dstream-cdc[{kind}]'",
        ) from error


def first_name(settings: OutputSettings) -> str:
    """The type of a block as the documentation and the extra have it."""
    return next(name for name, model in TYPES.items() if isinstance(settings, model))
