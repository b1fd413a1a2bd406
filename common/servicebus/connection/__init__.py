"""How one of the SDK's connections is made, bounded and closed."""
