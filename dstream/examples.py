"""The example of each block in docs/configuration.md; a test reads each as a configuration."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[tuple[str, str], str]] = {
    ("ingester", ""): """\
ingester {
  db_type              = "sqlserver"
  db_connection_string = "{{ env "DSTREAM_DB_CONNECTION_STRING" }}"
  tables               = ["Persons", "sales.Orders"]

  queue {
    name              = "ingest-queue"
    connection_string = "{{ env "DSTREAM_INGEST_CONNECTION_STRING" }}"
  }

  locks {
    type              = "azure_blob"
    connection_string = "{{ env "DSTREAM_LOCKS_CONNECTION_STRING" }}"
  }
}
""",
    ("ingester.queue", ""): """\
queue {
  type      = "servicebus"
  name      = "ingest-queue"
  namespace = "NAME.servicebus.windows.net" # the identity of the process, in place of a key
  ordering  = "key"
}
""",
    ("ingester.locks", "azure_blob"): """\
locks {
  type           = "azure_blob"
  account_url    = "https://ACCOUNT.blob.core.windows.net"
  container_name = "locks"
}
""",
    ("ingester.locks", "sqlserver"): """\
locks {
  type = "sqlserver"
}
""",
    ("ingester.locks", "local"): """\
locks {
  type = "local"
}
""",
    ("ingester.poll_interval_defaults", ""): """\
poll_interval_defaults {
  poll_interval     = "1s"
  max_poll_interval = "30s"
}
""",
    ("ingester.snapshot", ""): """\
snapshot {
  mode                = "initial"
  max_rows_per_second = 5000
}
""",
    ("ingester.shape", ""): """\
shape {
  exclude_columns = ["RowVersion"] # of every table that has it
  skip_operations = ["Delete"]

  mask {
    Email = "hash:SHA-256:{{ env "SALT" }}"
    Phone = "truncate:4"
  }
}
""",
    ("ingester.tables_overrides", ""): """\
tables_overrides {
  overrides {
    table_name    = "Persons"
    poll_interval = "500ms"

    snapshot {
      mode = "initial"
    }

    exclude_columns = ["CreatedBy", "UpdatedBy"]
    mask            = { "Last Name" = "redact" }
  }
  overrides {
    table_name        = "sales.Orders"
    max_poll_interval = "1h"
    filter            = "data.Status == 'paid'"
  }
}
""",
    ("ingester.health", ""): """\
health {
  port = 8080
}
""",
    ("ingester.spark", ""): """\
spark {
  master = "local[16]"
  conf   = { "spark.driver.memory" = "2g" }
}
""",
    ("router", ""): """\
router {
  source {
    connection_string = "{{ env "DSTREAM_ROUTER_CONNECTION_STRING" }}"
  }

  output {
    connection_string = "{{ env "DSTREAM_ROUTER_CONNECTION_STRING" }}"
  }

  subscriptions = ["billing", "search"]
  slots         = 16
}
""",
    ("router.source", ""): """\
source {
  namespace = "NAME.servicebus.windows.net"
}
""",
    ("router.output", "elasticsearch"): """\
output "search" {
  type     = "elasticsearch"
  urls     = ["https://search-1.example.com:9200", "https://search-2.example.com:9200"]
  username = "dstream"
  password = "{{ env "DSTREAM_SEARCH_PASSWORD" }}"
  ca_file  = "/etc/dstream/http_ca.crt"
  keys     = { Persons = ["ID"], "sales.Orders" = ["Region", "Number"] }
}
""",
    ("router.output", "kafka"): """\
output "stream" {
  type              = "kafka"
  bootstrap_servers = "kafka1.example.com:9093,kafka2.example.com:9093"
  username          = "dstream"
  password          = "{{ env "DSTREAM_KAFKA_PASSWORD" }}"
  sasl_mechanism    = "SCRAM-SHA-512"
  partitions        = 6
  topic_config      = { "min.insync.replicas" = 2 }
}
""",
    ("router.output", "postgres"): """\
output "copy" {
  type     = "postgres"
  host     = "postgres.example.com"
  database = "copies"
  user     = "dstream"
  password = "{{ env "DSTREAM_POSTGRES_PASSWORD" }}"
}
""",
    ("router.output", "nats"): """\
output "events" {
  type     = "nats"
  servers  = ["tls://nats-1.example.com:4222", "tls://nats-2.example.com:4222"]
  subject  = "cdc.{database}.{schema}.{table}"
  user     = "dstream"
  password = "{{ env "DSTREAM_NATS_PASSWORD" }}"
  replicas = 3
}
""",
    ("router.output", "webhook"): """\
output "orders" {
  type           = "webhook"
  url            = "https://orders.example.com/changes/{schema}/{table}"
  signing_secret = "{{ env "DSTREAM_WEBHOOK_SIGNING_SECRET" }}"
  batch          = 100

  headers {
    X-Api-Key = "{{ env "DSTREAM_WEBHOOK_API_KEY" }}"
  }
}
""",
    ("router.output", ""): """\
output {
  connection_string = "{{ env "DSTREAM_ROUTER_CONNECTION_STRING" }}"
  transport         = "websocket" # port 443 instead of 5671
  proxy             = "http://proxy.corp.example:3128"
  envelope          = "cloudevents"
}
""",
    ("router.output", "console"): """\
output "look" {
  type = "console"
  line = "message"
}
""",
    ("router.output", "file"): """\
output "archive" {
  type      = "file"
  root      = "/var/lib/dstream/changes"
  format    = "parquet"
  roll_size = "128MB"
  roll_time = "15m"
}
""",
    ("router.route", ""): """\
route {
  from = ["Persons", "sales.*"]
  when = "metadata.OperationType != 'Delete'"
  to   = ["default", "stream"]
}
""",
    ("router.output", "azure_event_hubs"): """\
output "stream" {
  type      = "azure_event_hubs"
  namespace = "NAME.servicebus.windows.net"
  event_hub = "changes" # of all tables
}
""",
    ("router.health", ""): """\
health {
  port = 8081
}
""",
}
"""HCL by a block's path and, where the block has several types, its type."""
