"""The audit: a check a function, in one registry."""
