"""What names in a query mean, and how lowered queries run."""
