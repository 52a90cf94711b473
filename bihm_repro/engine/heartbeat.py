"""Connections between host 0 and every other host that notice when one of them is gone.

Each side sends a byte every second. A connection that closes without a farewell, or is silent
for ``silence`` seconds, means that the other host has failed. (JAX has heartbeats of its own, but
aborts the process with a stack trace when one is missing, or when not all hosts meet. It aborts
as well when host 0 ends, where its service runs: host 0 therefore ends last.)
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from bihm_repro.errors import InputError

__all__ = ["Heartbeat"]

INTERVAL = 1.0
_ALIVE, _FAREWELL, _LOSS = b".", b"q", b"l"
_GREETING = b"bihm"


class Heartbeat:
    """Watches connections to other hosts in threads of its own."""

    def __init__(
        self,
        on_loss: Callable[[int], None],
        on_farewell: Callable[[int], None],
        silence: float = 60.0,
    ) -> None:
        """``on_loss(host)`` and ``on_farewell(host)`` are called in the watching thread."""
        self._on_loss, self._on_farewell, self._silence = on_loss, on_farewell, silence
        self._connections: list[socket.socket] = []
        self._receivers: list[threading.Thread] = []
        self._left = threading.Event()

    def accept(self, server: socket.socket, hosts: int, number: int, timeout: float) -> None:
        """Accept a connection from every host but the first and send it ``number``.

        TimeoutError where not all have come within ``timeout`` seconds.
        """
        deadline, found = time.monotonic() + timeout, {0: server}
        with server:
            while len(found) < hosts:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                connection, _ = server.accept()
                connection.settimeout(self._silence)
                greeting = connection.recv(8)
                if not greeting.startswith(_GREETING) or len(greeting) < 8:
                    connection.close()  # Not one of ours.
                    continue
                host = int.from_bytes(greeting[4:], "big")
                if host in found:
                    raise InputError(f"--host-id {host} was given to two hosts: each needs its own")
                found[host] = connection
        for host, connection in list(found.items())[1:]:
            connection.sendall(number.to_bytes(4, "big"))
            self._watch(connection, host)

    def connect(self, address: tuple[str, int], host: int, timeout: float) -> int:
        """Connect this host with the first, which may start later; return the first's number."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                connection = socket.create_connection(address, timeout=timeout)
                break
            except OSError as error:
                if time.monotonic() + 0.2 > deadline:
                    raise TimeoutError(str(error)) from None
                time.sleep(0.2)
        connection.sendall(_GREETING + host.to_bytes(4, "big"))
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        received = connection.recv(4)
        if len(received) < 4:
            raise TimeoutError("host 0 has closed the connection")
        connection.settimeout(self._silence)
        self._watch(connection, 0)
        return int.from_bytes(received, "big")

    def leave(self) -> None:
        """Say farewell: what happens to the connections from now on is not reported."""
        self._send_last(_FAREWELL)

    def abandon(self, timeout: float = 10.0) -> None:
        """Report a loss to the other hosts, and wait until they have closed their connections."""
        self._send_last(_LOSS)
        self.wait(timeout)

    def wait(self, timeout: float = 10.0) -> bool:
        """Wait until the other hosts have closed their connections; return whether all have."""
        deadline = time.monotonic() + timeout
        others = [one for one in self._receivers if one is not threading.current_thread()]
        for thread in others:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in others)

    def _send_last(self, message: bytes) -> None:
        self._left.set()
        for connection in self._connections:
            try:
                connection.sendall(message)
            except OSError:
                pass  # The other host has left before.

    def _watch(self, connection: socket.socket, host: int) -> None:
        self._connections.append(connection)
        threading.Thread(target=self._send, args=(connection,), daemon=True).start()
        receiver = threading.Thread(target=self._receive, args=(connection, host), daemon=True)
        self._receivers.append(receiver)
        receiver.start()

    def _send(self, connection: socket.socket) -> None:
        while not self._left.wait(INTERVAL):
            try:
                connection.sendall(_ALIVE)
            except OSError:
                return  # The receiving thread reports it.

    def _receive(self, connection: socket.socket, host: int) -> None:
        received = b""
        try:
            # A byte of the sending thread may follow the last message.
            while _FAREWELL not in received and _LOSS not in received:
                received = connection.recv(64)
                if not received:
                    break
        except OSError:
            received = b""
        if not self._left.is_set():
            (self._on_farewell if _FAREWELL in received else self._on_loss)(host)
        with suppress(OSError):
            while connection.recv(64):  # ``wait`` is for the end of the other process.
                pass
