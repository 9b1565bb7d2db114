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
from spark_apps.records.agent_socket import AgentServer, Attached, Latest, Reading
from spark_apps.records.batches import BatchOffset, Group, Range, encode_offset, plan_tasks
from spark_apps.records.options import SourceOptions
from tests.fakes.agent_client import AgentClient

OPTIONS = {"subscribe": "orders", "maxOffsetsPerTrigger": "5"}


class Scripted:
    """A planner with one batch; `failure` is raised in its place."""

    def __init__(self) -> None:
        self.options: SourceOptions | None = None
        self.events: list[str] = []
        self.failure: Exception | None = None

    def attach(self, reader: str, options: SourceOptions) -> Attached:
        self.options = options
        self.events.append(f"attach {reader}")
        return Attached({"bootstrap.servers": "host:9092"}, False)

    def initial(self, reader: str) -> BatchOffset:
        return BatchOffset("orders")

    def latest(self, reader: str, start: BatchOffset) -> Latest:
        if self.failure is not None:
            raise self.failure
        if start.batch > 0:
            return Latest(start, None)
        batch = start.following([Range(3, 0, 5, 7)], 2)
        return Latest(batch, replace(batch, ranges={3: Range(3, 0, 9, 0)}))

    def tasks(self, end: BatchOffset) -> tuple[Group, ...]:
        return plan_tasks(end)

    def until_now(self, reader: str) -> None: ...

    def is_over(self, reader: str) -> bool:
        return False

    def detach(self, reader: str) -> None:
        self.events.append(f"detach {reader}")


@pytest.fixture
def server() -> Iterator[AgentServer]:
    one = AgentServer(Reading("a", 4, "/etc/kafka.json"))
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
    client = AgentClient(str(server.path), "r1", {**OPTIONS, "kafka.check.crcs": "false", "includeHeaders": "true"})
    assert client.attached == {
        "topic": "orders",
        "consumer": "a",
        "incarnation": 4,
        "kafka": {"bootstrap.servers": "host:9092"},
        "settings_file": "/etc/kafka.json",
        "options": {"check.crcs": "false"},
        "include_headers": True,
        "include_assignment": False,
        "fail_on_data_loss": False,
        "progress_timeout_ms": 120_000,
    }
    assert planner.options is not None
    assert planner.options.max_offsets_per_trigger == 5
    first = client.ask("initial")
    assert first == client.ask("initial") == encode_offset(BatchOffset("orders"))
    second = client.ask("latest", start=first)
    assert second["batch"]["ranges"] == {"3": [0, 5, 7]}
    assert second["log_end"]["ranges"] == {"3": [0, 9, 0]}
    assert second["log_end"]["lag"] == {"3": 9}
    assert client.ask("tasks", end=second["batch"]) == [[[3, 0, 5, 7]]]
    assert second["metrics"]["maxOffsetsBehindLatest"] == "4", "what is left behind the batch"
    assert client.ask("latest", start=second["batch"]) == {"batch": second["batch"], "log_end": None, "metrics": {}}
    client.close()
    wait_until_free(server)
    assert planner.events[-1] == "detach r1"


def test_options_are_checked_without_a_reader(server: AgentServer) -> None:
    client = AgentClient(str(server.path), "", {})
    columns = client.ask("check", options={**OPTIONS, "includeAssignment": "true"})
    assert columns == {"include_headers": False, "include_assignment": True}
    with pytest.raises(AgentCallFailed, match="unknown option 'nonsense'"):
        client.ask("check", options={**OPTIONS, "nonsense": "1"})


def test_a_reader_of_another_version_is_refused(server: AgentServer, planner: Scripted) -> None:
    with pytest.raises(AgentCallFailed, match="the reader speaks version 3 and the agent 4"):
        AgentClient(str(server.path), "r1", OPTIONS, version=3)
    assert planner.events == []


def test_the_socket_is_private(server: AgentServer) -> None:
    assert stat.S_IMODE(server.path.parent.stat().st_mode) == 0o700


def test_a_second_reader_is_refused(server: AgentServer, planner: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    first = AgentClient(str(server.path), "r1", OPTIONS)
    monkeypatch.setattr(agent_socket, "LEAVE_TIMEOUT_S", 0.1)
    with pytest.raises(AgentCallFailed, match=r"read by another query of this application already \(reader r1\)"):
        AgentClient(str(server.path), "r2", OPTIONS)
    assert first.ask("initial")["batch"] == 0
    first.close()
    wait_until_free(server)
    AgentClient(str(server.path), "r3", OPTIONS).close()
    assert "attach r2" not in planner.events


def test_a_reader_waits_for_the_end_of_the_one_before(server: AgentServer, planner: Scripted) -> None:
    first = AgentClient(str(server.path), "r1", OPTIONS)
    threading.Timer(0.3, first.close).start()
    second = AgentClient(str(server.path), "r2", {**OPTIONS, "kafkaSettingsFile": "kafka.json"})
    assert "attach r2" in planner.events
    assert second.attached["settings_file"] == "kafka.json", "an option goes before the setting of the application"
    second.close()


def test_a_refusal_of_the_planner_reaches_the_query_as_its_sentence(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    planner.failure = Refused("partition 3 has no committed offset")
    with pytest.raises(AgentCallFailed, match=r"^partition 3 has no committed offset$"):
        client.ask("latest", start=client.ask("initial"))


def test_a_bug_in_the_planner_ends_the_query_and_not_the_agent(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    planner.failure = ZeroDivisionError("oops")
    with pytest.raises(AgentCallFailed, match="the agent failed: ZeroDivisionError: oops"):
        client.ask("latest", start=client.ask("initial"))
    planner.failure = None
    assert client.ask("latest", start=client.ask("initial"))["batch"]["batch"] == 1


def test_a_topic_without_a_planner_is_refused(server: AgentServer) -> None:
    with pytest.raises(AgentCallFailed, match=r"does not manage topic 'orders' \(managed: none\)"):
        AgentClient(str(server.path), "r1", OPTIONS)


def test_a_shortage_of_files_keeps_no_later_reader_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scarce(socket.socket):
        refused: ClassVar = [errno.EMFILE, errno.ENFILE]

        def accept(self) -> tuple[socket.socket, Any]:
            if self.refused:
                raise OSError(self.refused.pop(), "too many open files")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Scarce)
    server = AgentServer(Reading("a", 4, "/etc/kafka.json"))
    server.serve("orders", Scripted())
    AgentClient(str(server.path), "r1", OPTIONS).close()
    server.close()
    assert not server._thread.is_alive()


def test_nonsense_is_answered_and_the_conversation_goes_on(server: AgentServer, planner: Scripted) -> None:
    client = AgentClient(str(server.path), "r1", OPTIONS)
    with pytest.raises(AgentCallFailed, match="could not answer"):
        client.ask("fly")
    with pytest.raises(AgentCallFailed, match="format version"):
        client.ask("latest", start={"version": 9})
    assert client.ask("initial")["batch"] == 0
    assert planner.options is not None
