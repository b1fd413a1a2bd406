"""Dead letters sent again or removed: once each, in their order, and with an account of those that were left."""
