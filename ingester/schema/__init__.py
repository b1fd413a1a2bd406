"""Which columns a table's messages have, and the version that names them: values, ports and rules. Asks no database."""
