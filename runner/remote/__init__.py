"""Servers that somebody else runs: what stands between them and the client, how many answer, and arms that move."""
