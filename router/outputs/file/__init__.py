"""Files of JSON lines or Parquet, in a directory or in a container of Azure Blob Storage."""
