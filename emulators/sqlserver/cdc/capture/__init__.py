"""The capture and cleanup jobs: from the log to the change tables, and out of them."""
