"""Requests for several devices and hosts, and the connections between hosts."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from bihm_repro.cli.main import main
from bihm_repro.engine import parallel
from bihm_repro.engine.heartbeat import Heartbeat
from bihm_repro.engine.parallel import Parallel, choose_parallel, requested
from bihm_repro.errors import InputError


@pytest.fixture(autouse=True)
def on_jax(monkeypatch):
    """Choose a device that can be parallel, and forget every request afterwards."""
    monkeypatch.setenv("BIHM_ENGINE", "pytensor")
    monkeypatch.setenv("BIHM_DEVICE", "jax-cpu")
    for names in (parallel._VARIABLES, *parallel._LAUNCHERS):
        for name in names:
            monkeypatch.delenv(name, raising=False)
    yield
    choose_parallel()
    os.environ.pop("BIHM_DEVICES", None)


def test_without_options_one_host_uses_all_its_devices():
    choose_parallel()
    assert requested() == Parallel(None, 1, 0, "")


def test_requests_are_recorded():
    choose_parallel(4, 3, 2, "node-0:29500")
    assert requested() == Parallel(4, 3, 2, "node-0:29500")
    choose_parallel(2)
    assert requested() == Parallel(2, 1, 0, "")


def test_devices_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("BIHM_DEVICES", "3")
    choose_parallel()
    assert requested() == Parallel(3)
    monkeypatch.setenv("BIHM_DEVICES", "many")
    with pytest.raises(InputError, match="BIHM_DEVICES='many': an integer"):
        choose_parallel()
    monkeypatch.delenv("BIHM_DEVICES")


@pytest.mark.parametrize(("count", "index"), parallel._LAUNCHERS)
def test_launchers_are_detected(monkeypatch, count, index):
    monkeypatch.setenv(count, "4")
    monkeypatch.setenv(index, "3")
    choose_parallel()
    assert requested() == Parallel(None, 4, 3, "")
    monkeypatch.setenv("BIHM_DEVICE", "cpu")
    choose_parallel()
    assert requested() == Parallel()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 0}, "--devices 0: at least 1"),
        ({"hosts": 2}, "--hosts, --host-id and --coordinator HOST:PORT are given together"),
        (
            {"hosts": 2, "host_id": 2, "coordinator": "a:1"},
            "--host-id 2: hosts are numbered from 0",
        ),
        ({"hosts": 2, "host_id": 0, "coordinator": "a"}, "--coordinator 'a': HOST:PORT of host 0"),
    ],
)
def test_bad_requests_are_named(options, message):
    with pytest.raises(InputError, match=message):
        choose_parallel(**options)
    assert requested() == Parallel()


def test_other_engines_and_devices_say_that_they_are_not_parallel(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("BIHM_DEVICE", "cpu")
    with pytest.raises(InputError, match="--devices: device cpu is not parallel"):
        choose_parallel(2)
    monkeypatch.setenv("BIHM_ENGINE", "theano")
    assert (
        main(
            [
                "train",
                "mnist",
                "--hosts",
                "2",
                "--host-id",
                "0",
                "--coordinator",
                "a:1",
                "--out",
                str(tmp_path),
            ]
        )
        == 2
    )
    assert capsys.readouterr().err == (
        "bihm: error: --hosts: theano runs on one device of one host; use --engine pytensor "
        "--device jax-cpu or gpu\n"
    )


class Host:
    """A heartbeat that records what it reports."""

    def __init__(self, silence=30.0):
        self.events, self.happened = [], threading.Event()
        self.heartbeat = Heartbeat(
            lambda host: self._note("lost", host),
            lambda host: self._note("farewell", host),
            silence,
        )

    def _note(self, *event):
        self.events.append(event)
        self.happened.set()


def listen():
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def hosts():
    """Host 0 connected with host 1, after something else has knocked."""
    first, other, server, numbers = Host(), Host(), listen(), []
    with socket.create_connection(server.getsockname()) as stranger:
        stranger.sendall(b"GET / HTTP/1.1")
    joining = threading.Thread(
        target=lambda: numbers.append(other.heartbeat.connect(server.getsockname(), 1, 30))
    )
    joining.start()
    first.heartbeat.accept(server, 2, 4321, 30)
    joining.join()
    assert numbers == [4321]
    yield first, other
    for host in (first, other):
        host.heartbeat.leave()


def test_a_farewell_is_no_loss(hosts):
    first, other = hosts
    other.heartbeat.leave()
    assert first.happened.wait(10) and first.events == [("farewell", 1)]
    first.heartbeat.leave()
    assert other.events == []


def test_a_connection_that_closes_is_a_loss(hosts):
    first, other = hosts
    first.heartbeat._connections[0].shutdown(socket.SHUT_RDWR)
    assert other.happened.wait(10) and other.events == [("lost", 0)]


@pytest.mark.parametrize(("message", "event"), [(b"q.", "farewell"), (b"l.", "lost")])
def test_a_byte_after_the_last_message_changes_nothing(hosts, message, event):
    first, other = hosts
    first.heartbeat._connections[0].sendall(message)
    assert other.happened.wait(10) and other.events == [(event, 0)]


def test_host_0_ends_after_the_others_have_heard_of_a_loss(hosts):
    first, other = hosts
    order = []
    other.heartbeat._on_loss = lambda host: (time.sleep(0.3), order.append("other"), close(other))
    first.heartbeat.abandon(timeout=20)
    order.append("first")
    assert order == ["other", "first"] and first.events == []


def test_host_0_ends_after_the_others_when_training_is_over(hosts):
    first, other = hosts
    order = []
    other.heartbeat._on_farewell = lambda host: (
        time.sleep(0.3),
        order.append("other"),
        close(other),
    )
    first.heartbeat.leave()
    assert first.heartbeat.wait(timeout=20)
    order.append("first")
    assert order == ["other", "first"] and first.events == []


def test_a_host_that_has_said_farewell_is_waited_for_until_it_has_ended(hosts):
    first, other = hosts
    other.heartbeat.leave()
    assert first.happened.wait(10)
    assert not first.heartbeat.wait(timeout=0.1)
    close(other)
    assert first.heartbeat.wait(timeout=20)


def test_a_host_that_does_not_answer_is_not_waited_for(hosts):
    first, other = hosts
    other.heartbeat._on_loss = lambda host: None
    first.heartbeat.abandon(timeout=0.1)
    assert any(thread.is_alive() for thread in first.heartbeat._receivers)


def close(host):
    host.heartbeat._connections[0].shutdown(socket.SHUT_RDWR)


def test_a_silent_connection_is_a_loss():
    first, server = Host(silence=0.5), listen()
    with socket.create_connection(server.getsockname()) as connection:
        connection.sendall(b"bihm" + (7).to_bytes(4, "big"))
        first.heartbeat.accept(server, 2, 0, 30)
        assert first.happened.wait(10) and first.events == [("lost", 7)]


def test_hosts_that_do_not_meet_time_out():
    server = listen()
    address = server.getsockname()
    with pytest.raises(OSError, match="timed out"):
        Host().heartbeat.accept(server, 2, 0, 0.2)
    with pytest.raises(TimeoutError):
        Host().heartbeat.connect(address, 1, 0.5)


def test_a_host_id_that_is_given_twice_is_named():
    server = listen()
    twice = [socket.create_connection(server.getsockname()) for _ in range(2)]
    for connection in twice:
        connection.sendall(b"bihm" + (1).to_bytes(4, "big"))
    with pytest.raises(InputError, match="--host-id 1 was given to two hosts"):
        Host().heartbeat.accept(server, 3, 0, 30)
    for connection in twice:
        connection.close()
