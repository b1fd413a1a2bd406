"""Azure Blob Storage: what the ingester's locks and the router's files share."""
