"""What of a table's changes is sent: columns, masks, filters. Values, and what workers make of them. Pure."""
