"""The output to Azure Event Hubs."""
