# One fault a line: all of them are reported at once. The expected lines stand in broken.txt.
ingestor {
}
ingester {
    db_type = "oracle"
    db_connection_string = "Server=tcp:db,1433;Database=shop;User Id=u;Password=hunter2-hunter2;Colour=blue"
    server_name = "sql.prod"
    poll_interval_defaults {
        poll_interval = "3m"
        max_poll_interval = "2m"
    }
    queue {
        type = "rabbitmq"
        connectionstring = "Endpoint=sb://x;SharedAccessKey=hunter2-hunter2"
        name = "ingest queue"
        ordering = upper("table")
    }
    locks = "azure_blob"
    tables = ["Persons", "a.b.c", "persons", 7]
    tables_overrides {
        overrides {
            table_name = "Person"
            poll_interval = "0s"
        }
        overrides {
            table_name = "Persons"
            poll_interval = "5"
            poll_interval = "6s"
        }
    }
    on_gap = "${env.X}"
    page_rows = "2000"
    before_images = {{ nonsense }}
    spark {
        conf {
        }
    }
}
router {
    source {
        connection_string = "{{ env("MISSING") }}"
    }
    sessions = 0
    subscriptions = ["sub1", "SUB1"]
}
publisher {
}
