# An example to copy into an overlay. Every setting: docs/configuration.md. Secrets come from the environment (Secret dstream-secrets).

ingester {
    db_type              = "sqlserver"
    db_connection_string = "{{ env("DSTREAM_DB_CONNECTION_STRING") }}"

    # Parts of the topics' names. With both, the router needs no login of the database.
    server_name = "sqlserver"
    database    = "shop"

    tables = ["dbo.Persons", "sales.Orders"]

    queue {
        type              = "azure_service_bus"
        name              = "ingest-queue"
        connection_string = "{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}"
    }

    # The pods share the tables by their locks.
    locks {
        type = "sqlserver"
    }

    health {
        port = 8080
    }
}

router {
    source {
        type              = "azure_service_bus"
        connection_string = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING") }}"
    }

    output {
        type              = "azure_service_bus"
        connection_string = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING") }}"
    }

    # The memory limit of its pod is made for two.
    workers = 2

    health {
        port = 8081
    }
}
