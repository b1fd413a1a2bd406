"""What the database's catalog says of tables that nobody has named."""
