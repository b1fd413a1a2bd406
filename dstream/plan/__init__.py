"""`dstream plan`: what a configuration needs of Azure, SQL Server and Kubernetes, as files for the tools that make it.

`needs.py` decides, one module a language writes it down. Nothing here connects to anything, and no secret is written.
"""
