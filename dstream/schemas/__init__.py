"""JSON Schemas of what is on a topic, and the AsyncAPI document of all topics. Pure."""
