"""What both stages use, and nothing else. A module enters here when the second stage needs it."""
