"""What a person sees of both stages, and does: dead letters, messages, the configuration, and the page with its API.

Stands above both stages and below the command line. Carries no change: neither stage needs it to run.
"""
