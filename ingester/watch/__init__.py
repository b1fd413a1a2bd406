"""What is seen of a running ingester: figures, metrics, and the server's capture."""
