"""Which of a host's addresses to use: decided once, before the cell, so that no attempt waits for a name server."""

from __future__ import annotations

import asyncio
import socket


async def first_that_accepts(host: str, port: int) -> tuple[str, int]:
    """The first address of the host that takes a connection (as `localhost` may be ::1 and 127.0.0.1, with a server on
    one of them), or the first there is. A name that does not resolve stays a name: each attempt then fails by it."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return host, port
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    for address in addresses if len(addresses) > 1 else ():
        try:
            async with asyncio.timeout(1.0):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        return address, port
    return addresses[0], port
