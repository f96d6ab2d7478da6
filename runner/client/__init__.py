"""The measuring client."""
