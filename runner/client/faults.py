"""Why there was no connection: the exceptions of the socket layer -> outcome and kind of failure, in one table."""

from __future__ import annotations

import errno
import socket
import ssl

from .attempt import Attempt

#: errno -> (outcome, failure). What is the client's own fault is told apart from what the server or the network did.
_BY_ERRNO: dict[int, tuple[str, str]] = {
    errno.ECONNREFUSED: ("connect_error", "refused"),
    errno.ECONNRESET: ("connect_error", "reset"),
    errno.ECONNABORTED: ("connect_error", "reset"),
    errno.EPIPE: ("connect_error", "reset"),
    errno.EHOSTUNREACH: ("connect_error", "unreachable"),
    errno.ENETUNREACH: ("connect_error", "unreachable"),
    errno.ETIMEDOUT: ("connect_error", "unreachable"),
    errno.EADDRNOTAVAIL: ("client_error", "no_port"),
    errno.EMFILE: ("client_error", "no_descriptor"),
    errno.ENFILE: ("client_error", "no_descriptor"),
    errno.ENOBUFS: ("client_error", "no_memory"),
    errno.ENOMEM: ("client_error", "no_memory"),
}


def note_unconnected(attempt: Attempt, error: OSError) -> None:
    """Write into the attempt what kept it from a connection."""
    attempt.fault, attempt.failure = _kind(error)
    attempt.error = f"no connection: {error.strerror or error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        attempt.error = f"no connection: the certificate was not accepted: {error.verify_message}"


def _kind(error: OSError) -> tuple[str, str]:
    if isinstance(error, socket.gaierror):
        return "connect_error", "dns"
    if isinstance(error, ssl.SSLError):
        return "connect_error", "tls"
    return _BY_ERRNO.get(error.errno or 0, ("connect_error", "other"))
