"""DDL: CREATE, ALTER and DROP of tables, views, indexes and schemas."""
