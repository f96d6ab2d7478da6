"""Everything that touches a live system: plan, load, client, engines, identity, telemetry, bundle, command line."""
