"""Tables that a person has paused: learning of it, and keeping them from being read."""
