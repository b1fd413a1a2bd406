"""A session of the engine: what it runs, its transaction, its connections to databases, and the databases that are its own."""
