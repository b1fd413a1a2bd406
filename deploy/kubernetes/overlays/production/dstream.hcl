# Yours: server_name, database, tables, the namespace, the storage account. Every setting: docs/configuration.md.

ingester {
    db_type              = "sqlserver"
    db_connection_string = "{{ env("DSTREAM_DB_CONNECTION_STRING") }}"

    # Parts of the topics' names. With both, the router needs no login of the database.
    server_name = "example"
    database    = "shop"

    tables = ["dbo.Persons", "sales.Orders"]

    queue {
        type      = "azure_service_bus"
        name      = "ingest-queue"
        namespace = "example.servicebus.windows.net"
        provision = "none" # no right to manage: queue and topics exist already
    }

    # Leases on blobs do not depend on the source database, and end by themselves where an ingester hangs.
    locks {
        type           = "azure_blob"
        account_url    = "https://example.blob.core.windows.net"
        container_name = "locks"
    }

    health {
        port = 8080
    }
}

router {
    provision = "none"

    source {
        type      = "azure_service_bus"
        namespace = "example.servicebus.windows.net"
    }

    output {
        type      = "azure_service_bus"
        namespace = "example.servicebus.windows.net"
    }

    # The memory limit of its pod is made for two.
    workers = 2

    health {
        port = 8081
    }
}
