"""The catalog and management views: rows made of a catalog when a query asks for them."""
