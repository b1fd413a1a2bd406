"""Machines for tests: network namespaces with addresses of their own, and a Spark cluster and an ingester on them."""
