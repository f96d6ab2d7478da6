"""What a system under test says it is."""
