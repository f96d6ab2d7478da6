"""Host, server and client telemetry, off the measured path."""
