"""Logging in to SQL Server: address, certificate, token, and why it was refused."""
