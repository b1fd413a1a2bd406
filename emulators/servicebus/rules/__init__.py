"""Rules of subscriptions: which messages a subscription takes, and what it changes in its copy."""
