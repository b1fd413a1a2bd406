"""The management API over HTTP: entities and rules as Azure's administration clients manage them, and a page for people."""
