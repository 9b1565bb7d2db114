"""The socket between the reader and the agent."""

import errno
import socket
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.errors import AgentCallFailed
from spark_apps.records import agent_socket
from spark_apps.records.agent_socket import AgentClient, AgentServer, Attached, Latest
from spark_apps.records.batches import BatchOffset, Range, encode_offset
from spark_apps.records.options import SourceOptions

OPTIONS = {"subscribe": "orders", "maxOffsetsPerTrigger": "5"}


class Scripted:
    """A planner with one batch; `failure` is raised in its place."""

    def __init__(self) -> None:
        self.options: SourceOptions | None = None
        self.events: list[str] = []
        self.failure: Exception | None = None
        self.pause_s = 0.0

    def attach(self, reader: str, options: SourceOptions) -> Attached:
        self.options = options
        self.events.append(f"attach {reader}")
        return Attached({"bootstrap.servers": "host:9092"}, False)

    def initial(self, reader: str) -> BatchOffset:
        self.events.append(f"initial {reader}")
        time.sleep(self.pause_s)
        return BatchOffset("orders")

    def latest(self, reader: str, start: BatchOffset) -> Latest:
        self.events.append(f"latest {reader} {start.batch}")
        if self.failure is not None:
            raise self.failure
        if start.batch > 0:
            return Latest(start, None)
        batch = start.following([Range(3, 0, 5, 7)], 2)
        return Latest(batch, replace(batch, ranges={3: Range(3, 0, 9, 0)}))

    def until_now(self, reader: str) -> None:
        self.events.append(f"until now {reader}")

    def is_over(self, reader: str) -> bool:
        return reader == "r9"

    def detach(self, reader: str) -> None:
        self.events.append(f"detach {reader}")


@pytest.fixture
def server() -> Iterator[AgentServer]:
    one = AgentServer()
    yield one
    one.close()


@pytest.fixture
def planner(server: AgentServer) -> Scripted:
    one = Scripted()
    server.serve("orders", one)
    return one


def wait_until_free(server: AgentServer) -> None:
    deadline = time.monotonic() + 60
    while "orders" in server._readers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "orders" not in server._readers


def test_a_reader_asks_and_the_planner_answers(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    assert client.attached == Attached({"bootstrap.servers": "host:9092"}, False)
    assert planner.options is not None
    assert planner.options.max_offsets_per_trigger == 5
    first = client.initial()
    assert first == client.initial() == encode_offset(BatchOffset("orders"))
    second, log_end = client.latest(first)
    assert second["ranges"] == {"3": [0, 5, 7]}
    assert log_end is not None
    assert log_end["ranges"] == {"3": [0, 9, 0]}
    assert client.latest(second) == (second, None)
    client.close()
    wait_until_free(server)
    assert planner.events[-1] == "detach r1"


def test_the_socket_is_private(server: AgentServer) -> None:
    assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700


def test_a_second_live_reader_is_refused_and_a_later_one_is_not(
    server: AgentServer, planner: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = AgentClient(str(server.path), "r1", OPTIONS)
    monkeypatch.setattr(agent_socket, "LEAVE_TIMEOUT_S", 0.1)
    with pytest.raises(AgentCallFailed, match=r"read by another query of this application already \(reader r1\)"):
        AgentClient(str(server.path), "r2", OPTIONS)
    assert first.initial()["batch"] == 0
    first.close()
    wait_until_free(server)
    AgentClient(str(server.path), "r3", OPTIONS).close()
    assert "attach r2" not in planner.events


def test_a_reader_waits_for_the_end_of_the_one_before(server: AgentServer, planner: Scripted) -> None:
    first = AgentClient(str(server.path), "r1", OPTIONS)
    threading.Timer(0.3, first.close).start()
    AgentClient(str(server.path), "r2", OPTIONS).close()
    assert "attach r2" in planner.events


def test_a_refusal_of_the_planner_reaches_the_query_as_its_sentence(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    planner.failure = Refused("partition 3 has no committed offset")
    with pytest.raises(AgentCallFailed, match=r"^partition 3 has no committed offset$"):
        client.latest(client.initial())


def test_a_bug_in_the_planner_ends_the_query_and_not_the_agent(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    planner.failure = ZeroDivisionError("oops")
    with pytest.raises(AgentCallFailed, match="the agent failed: ZeroDivisionError: oops"):
        client.latest(client.initial())
    planner.failure = None
    assert client.latest(client.initial())[0]["batch"] == 1


def test_a_topic_without_a_planner_is_refused(server: AgentServer) -> None:
    with pytest.raises(AgentCallFailed, match=r"does not manage topic 'orders' \(managed: none\)"):
        AgentClient(str(server.path), "r1", OPTIONS)


def test_an_agent_that_does_not_answer_is_given_up(server: AgentServer, planner: Scripted) -> None:
    planner.pause_s = 2.0
    client = AgentClient(str(server.path), "r1", OPTIONS, timeout_s=0.1)
    with pytest.raises(AgentCallFailed, match="did not answer"):
        client.initial()


def test_a_shortage_of_files_keeps_no_later_reader_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(socket.socket):
        refused: ClassVar = [errno.EMFILE, errno.ENFILE]

        def accept(self) -> tuple[socket.socket, Any]:
            if self.refused:
                raise OSError(self.refused.pop(), "too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Scarce)
    server = AgentServer()
    server.serve("orders", Scripted())
    AgentClient(str(server.path), "r1", OPTIONS).close()
    server.close()
    assert not server._thread.is_alive()


def test_no_agent_at_all_says_how_to_start_one() -> None:
    with pytest.raises(AgentCallFailed, match=r"start the agent first, by a spark_apps\.consumer\.Consumer: see docs"):
        AgentClient("/nowhere/agent.sock", "r1", OPTIONS)


def test_nonsense_is_answered_and_the_conversation_goes_on(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    with pytest.raises(AgentCallFailed, match="could not answer"):
        client._ask("fly")
    with pytest.raises(AgentCallFailed, match="format version"):
        client.latest({"version": 9})
    assert client.initial()["batch"] == 0
    assert planner.options is not None
