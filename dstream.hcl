# The whole pipeline on one page. As it stands it talks to the local emulators (`dstream emulators`);
# set the three connection strings and it talks to the real services. Every setting: docs/configuration.md.

ingester {
    db_type              = "sqlserver"
    db_connection_string = "{{ env("DSTREAM_DB_CONNECTION_STRING", "sqlserver://sa:DStream-local-1@localhost:1433?database=shop&encrypt=disable") }}"

    poll_interval_defaults {
        poll_interval     = "5s" # after a change, and
        max_poll_interval = "2m" # at most, while a table is idle
    }

    queue {
        type                = "azure_service_bus"
        name                = "ingest-queue"
        connection_string   = "{{ env("DSTREAM_INGEST_CONNECTION_STRING", "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;") }}"
        management_endpoint = "{{ env("DSTREAM_MANAGEMENT_ENDPOINT", "") }}" # "": the namespace's own
    }

    # On Azure: type = "azure_blob" with connection_string and container_name, so that replicas share the tables.
    locks {
        type = "local"
    }

    # Or patterns, which also find tables that come under capture later: ["Persons", "sales.*", "!sales.Audit*"]
    tables = ["Persons", "sales.Orders"]

    # Metrics and probes: /metrics, /healthz and /readyz. Each stage has a port of its own.
    health {
        host = "127.0.0.1" # "0.0.0.0" for probes and Prometheus of other machines
        port = 8080
    }

    tables_overrides {
        overrides {
            table_name        = "Persons"
            poll_interval     = "1s"
            max_poll_interval = "10s"
        }
    }
}

router {
    source {
        type                = "azure_service_bus"
        connection_string   = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING", "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;") }}"
        management_endpoint = "{{ env("DSTREAM_MANAGEMENT_ENDPOINT", "") }}"
    }

    output {
        type                = "azure_service_bus"
        connection_string   = "{{ env("DSTREAM_ROUTER_CONNECTION_STRING", "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;") }}"
        management_endpoint = "{{ env("DSTREAM_MANAGEMENT_ENDPOINT", "") }}"
    }

    health {
        host = "127.0.0.1"
        port = 8081
    }
}
