"""The embedded engine: continuous batching with declared costs, played on the clock over real HTTP."""
