"""What goes wrong when it is told to: faults by name, one module for each thing that breaks. Where they get in is injection.py."""
