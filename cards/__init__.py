"""Ready-to-run cards. Data only."""
