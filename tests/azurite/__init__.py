"""Azurite, Microsoft's emulator of Blob storage, as a process; and a proxy that stands between it and a client and breaks on order.

`make azurite` fetches it. https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite
"""
