"""Connections between host 0 and every other host that notice when one of them is gone.

Each side sends a byte every second. A connection that closes without a farewell, or is silent
for ``timeout`` seconds, means that the other host has failed. (JAX has heartbeats of its own, but
aborts the process with a stack trace, and waits for peers that have been killed.)
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

__all__ = ["Heartbeat", "listen"]

INTERVAL = 1.0
_ALIVE, _FAREWELL = b".", b"q"


def listen() -> socket.socket:
    """Return a listening socket on a free port of all interfaces."""
    return socket.create_server(("", 0))


class Heartbeat:
    """Watches connections to other hosts in threads of its own."""

    def __init__(self, on_loss: Callable[[int], None], on_farewell: Callable[[int], None],
                 timeout: float = 60.0) -> None:
        """``on_loss(host)`` and ``on_farewell(host)`` are called in the watching thread."""
        self._on_loss, self._on_farewell, self._timeout = on_loss, on_farewell, timeout
        self._connections: list[socket.socket] = []
        self._left = threading.Event()

    def accept(self, server: socket.socket, hosts: int) -> None:
        """Accept a connection from each host but the first, then watch them."""
        server.settimeout(self._timeout)
        for _ in range(hosts - 1):
            connection, _ = server.accept()
            connection.settimeout(self._timeout)
            self._watch(connection, int.from_bytes(connection.recv(4), "big"))
        server.close()

    def connect(self, address: tuple[str, int], host_id: int) -> None:
        """Connect this host to the first, then watch the connection."""
        connection = socket.create_connection(address, timeout=self._timeout)
        connection.sendall(host_id.to_bytes(4, "big"))
        self._watch(connection, 0)

    def leave(self) -> None:
        """Say farewell: what happens to the connections from now on is of no interest."""
        self._left.set()
        for connection in self._connections:
            try:
                connection.sendall(_FAREWELL)
            except OSError:
                pass  # The other host has left before.

    def _watch(self, connection: socket.socket, host: int) -> None:
        self._connections.append(connection)
        threading.Thread(target=self._send, args=(connection,), daemon=True).start()
        threading.Thread(target=self._receive, args=(connection, host), daemon=True).start()

    def _send(self, connection: socket.socket) -> None:
        while not self._left.wait(INTERVAL):
            try:
                connection.sendall(_ALIVE)
            except OSError:
                return  # The receiving thread reports it.

    def _receive(self, connection: socket.socket, host: int) -> None:
        received = b""
        try:
            while not received.endswith(_FAREWELL):
                received = connection.recv(64)
                if not received:
                    break
        except OSError:
            received = b""
        if not self._left.is_set():
            (self._on_farewell if received else self._on_loss)(host)
