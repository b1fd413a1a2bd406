"""Queues, topics and subscriptions, and the namespace they are in. Knows neither links nor connections."""
