# The demo's tables on the emulators, polled often because somebody watches.

ingester {
    db_type              = "sqlserver"
    db_connection_string = "{{ env("DSTREAM_DB_CONNECTION_STRING") }}"
    server_name          = "sqlserver"
    database             = "demo"

    tables = ["dbo.Customers", "sales.Orders", "dbo.OrderLines", "dbo.Everything"]

    poll_interval_defaults {
        poll_interval     = "500ms"
        max_poll_interval = "2s"
    }

    queue {
        type              = "azure_service_bus"
        name              = "ingest-queue"
        connection_string = "{{ env("DSTREAM_INGEST_CONNECTION_STRING") }}"
    }

    # As in production. The tables of a killed ingester wait up to a minute, until its leases have run out.
    locks {
        type              = "azure_blob"
        connection_string = "{{ env("DSTREAM_LOCKS_CONNECTION_STRING") }}"
    }

    spark {
        master = "local[4]"
    }

    health {
        port = 8080
    }
}

router {
    workers = 1

    source {
        type              = "azure_service_bus"
        connection_string = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING") }}"
    }

    output {
        type              = "azure_service_bus"
        connection_string = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING") }}"
    }

    health {
        port = 8081
    }
}
