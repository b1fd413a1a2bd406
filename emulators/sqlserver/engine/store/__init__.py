"""What is kept: databases as SQLite files with their catalogs, and the state of the server. Knows no session and no statement."""
