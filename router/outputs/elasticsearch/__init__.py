"""Elasticsearch and OpenSearch as an output: an index for each table that equals it, document by document (docs/outputs/elasticsearch.md)."""
