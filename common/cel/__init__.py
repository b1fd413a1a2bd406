"""CEL: expressions over a change, for filters of tables and of routes."""
