"""The message explorer, and the way of a change: what the port `Messages` of `desk/desk.py` promises. Looks, and changes nothing."""
