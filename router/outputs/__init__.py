"""Where the router sends: one folder for each type of output. `port.py` is what they all offer; `registry.py` names them."""
