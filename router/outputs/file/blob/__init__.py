"""Files in a container of Azure Blob Storage."""
