"""The instrument measured: a server with known timing, the client driven against it, and the certificate of what it
can do on this machine."""
