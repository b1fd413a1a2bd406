"""What goes wrong when it is told to: faults by name, and where they get in."""
