"""INSERT, UPDATE, DELETE and MERGE: rows, their constraints, and what OUTPUT says of them."""
