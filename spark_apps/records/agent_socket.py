"""The requests of Spark's source, in the driver's JVM, to the agent in the driver's Python process.

The two sides exchange JSON lines on a Unix socket. The other side is `partitioncoordinator.spark.Agent`.

A request is `{"call": name, ...}`, the answer `{"ok": value}` or `{"error": sentence}`. Each reader has one connection,
with one request at a time. The connection's own thread calls a `Planner`. A topic has one live reader, because two
would read the same ranges. A second reader waits up to `LEAVE_TIMEOUT_S`, since the query of the first may have just
ended; then the second is refused.
"""

import contextlib
import errno
import json
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coordinator_tasks.core.errors import CoordinatorError, Refused
from spark_apps.errors import AgentCallFailed
from spark_apps.records.batches import BatchOffset, Group, behind, decode_offset, encode_offset
from spark_apps.records.options import SourceOptions, parse_options

VERSION = 4
MAX_PATH_BYTES = 100  # sun_path has 108 bytes, including its end
CLOSE_TIMEOUT_S = 2.0
LONGEST_WAIT_S = 0.2
LEAVE_TIMEOUT_S = 5.0
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Shortages of files or memory, which pass. Meanwhile a reader waits in the queue."""

log = logging.getLogger(__name__)


class Latest(NamedTuple):
    """A batch, and the log's end for Spark's progress (`None` if unknown).

    One answer has both, because a separate request for the log's end would wait for the work on the batch.
    """

    batch: BatchOffset
    log_end: BatchOffset | None


class Attached(NamedTuple):
    """Answer to a new reader: librdkafka settings for the executors (`bootstrap.servers`), without secrets.

    `fail_on_data_loss`: whether executors stop at missing records: the option's value, or True if the sink's positions
    count.
    """

    kafka: Mapping[str, str]
    fail_on_data_loss: bool


class Reading(NamedTuple):
    """What the agent tells every reader of this application.

    `settings_file`: default of the option `kafkaSettingsFile`.
    """

    consumer: str
    incarnation: int
    settings_file: str = ""


class Planner(Protocol):
    """The agent's side of one topic. A `CoordinatorError` ends the query with the error's sentence."""

    def attach(self, reader: str, options: SourceOptions) -> Attached:
        """Begin to serve a reader."""

    def initial(self, reader: str) -> BatchOffset:
        """Return the offset before the first batch. May be called repeatedly, and has no side effect."""

    def latest(self, reader: str, start: BatchOffset) -> Latest:
        """Return the next batch; `start` itself if there is nothing new. May wait up to `LONGEST_WAIT_S`.

        Everything up to `start` has passed the sink.
        """

    def tasks(self, end: BatchOffset) -> Sequence[Group]:
        """Return the tasks of the batch that ends at `end`."""

    def until_now(self, reader: str) -> None:
        """Limit all later batches to the records that exist now."""

    def is_over(self, reader: str) -> bool:
        """Return whether all records within that limit have passed the sink."""

    def detach(self, reader: str) -> None:
        """Note that the reader's connection has ended."""


class AgentServer:
    """Listens for readers in a new private folder. `close` ends all connections and removes the folder."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._folder = Path(tempfile.mkdtemp(prefix="assigned-kafka-"))  # mode 0700
        self.path = self._folder / "agent.sock"
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            shutil.rmtree(self._folder)
            raise Refused(f"the socket path {self.path} is longer than {MAX_PATH_BYTES} bytes; set a shorter TMPDIR")
        self._lock = threading.Condition()
        self._planners: dict[str, Planner] = {}
        self._readers: dict[str, str] = {}
        self._connections: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, name="agent-socket", daemon=True)
        self._thread.start()

    def serve(self, topic: str, planner: Planner) -> None:
        with self._lock:
            self._planners[topic] = planner

    def withdraw(self, topic: str) -> None:
        """Refuse new readers of `topic`."""
        with self._lock:
            self._planners.pop(topic, None)

    def close(self) -> None:
        """End all connections, which ends the queries of their readers."""
        _shut(self._listener)
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            _shut(connection)
        self._thread.join(CLOSE_TIMEOUT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in SHORTAGES:
                    return  # the server is closed
                time.sleep(LONGEST_WAIT_S)
                continue
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._converse, args=(connection,), name="agent-reader", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        session = _Session(self)
        try:
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    stream.write(json.dumps(session.answer(line)).encode() + b"\n")
                    stream.flush()
        except OSError:
            pass  # the reader's process has ended
        finally:
            session.end()
            with self._lock:
                self._connections.discard(connection)

    def admit(self, topic: str, reader: str) -> Planner:
        """Make `reader` the live reader of `topic`. Raises `AgentCallFailed` if another reader is live."""
        with self._lock:
            planner = self._planners.get(topic)
            if planner is None:
                known = ", ".join(sorted(self._planners)) or "none"
                raise AgentCallFailed(
                    f"this application's agent does not manage topic '{topic}' (managed: {known}); "
                    "add the topic to the coordinator, or correct 'subscribe'"
                )
            self._lock.wait_for(lambda: self._readers.get(topic, reader) == reader, LEAVE_TIMEOUT_S)
            other = self._readers.setdefault(topic, reader)
            if other != reader:
                raise AgentCallFailed(
                    f"topic '{topic}' is read by another query of this application already (reader {other}); "
                    "stop that query first, or use one query with several outputs"
                )
            return planner

    def dismiss(self, topic: str, reader: str) -> None:
        with self._lock:
            if self._readers.get(topic) == reader:
                del self._readers[topic]
                self._lock.notify_all()


class _Session:
    """The requests and answers of one connection."""

    def __init__(self, server: AgentServer) -> None:
        self._server = server
        self._topic = ""
        self._reader = ""
        self._planner: Planner | None = None
        self._calls: dict[str, Callable[[Planner, Mapping[str, Any]], Any]] = {
            "initial": lambda planner, _: encode_offset(planner.initial(self._reader)),
            "latest": self._latest,
            "tasks": _tasks,
            "until_now": lambda planner, _: planner.until_now(self._reader),
            "is_over": lambda planner, _: planner.is_over(self._reader),
        }

    def answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            return {"ok": self._perform(request)}
        except CoordinatorError as error:
            return {"error": str(error)}
        except (ValueError, KeyError, TypeError) as error:
            log.exception("a request of the reader could not be read")
            return {"error": f"the agent could not answer: {type(error).__name__}: {error}"}
        except Exception as error:  # a bug ends the query and not the agent
            log.exception("the planner of topic %s failed", self._topic)
            return {"error": f"the agent failed: {type(error).__name__}: {error}; see the driver's log"}

    def _perform(self, request: Mapping[str, Any]) -> Any:
        if request["call"] == "check":
            return _check(request)
        if request["call"] == "attach":
            return self._attach(request)
        if self._planner is None:
            raise AgentCallFailed("the first request of a reader is 'attach'")
        return self._calls[request["call"]](self._planner, request)

    def end(self) -> None:
        if self._planner is None:
            return
        self._server.dismiss(self._topic, self._reader)
        try:
            self._planner.detach(self._reader)
        except Exception:  # no caller could handle the error
            log.exception("the planner of topic %s failed at the reader's end", self._topic)

    def _attach(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("version") != VERSION:
            raise AgentCallFailed(f"the reader speaks version {request.get('version')!r} and the agent {VERSION}")
        options = parse_options(request["options"])
        planner = self._server.admit(options.topic, request["reader"])
        self._topic, self._reader, self._planner = options.topic, request["reader"], planner
        attached, reading = planner.attach(self._reader, options), self._server.reading
        return {
            "topic": options.topic,
            "consumer": reading.consumer,
            "incarnation": reading.incarnation,
            "kafka": dict(attached.kafka),
            "settings_file": options.settings_file or reading.settings_file,
            "options": dict(options.kafka),
            "include_headers": options.include_headers,
            "include_assignment": options.include_assignment,
            "fail_on_data_loss": attached.fail_on_data_loss,
            "progress_timeout_ms": round(options.progress_timeout_s * 1000),
        }

    def _latest(self, planner: Planner, request: Mapping[str, Any]) -> dict[str, Any]:
        batch, log_end = planner.latest(self._reader, decode_offset(request["start"]))
        encoded = encode_offset(batch)
        if log_end is None:
            return {"batch": encoded, "log_end": None, "metrics": {}}
        left = behind(log_end.after(batch))
        metrics = {name: str(value) for name, value in left.items() if name != "lag"}
        return {"batch": encoded, "log_end": {**encode_offset(log_end), **behind(log_end)}, "metrics": metrics}


def _check(request: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options when a stream is loaded. The answer decides which columns the stream has."""
    options = parse_options(request["options"])
    return {"include_headers": options.include_headers, "include_assignment": options.include_assignment}


def _tasks(planner: Planner, request: Mapping[str, Any]) -> list[list[list[int]]]:
    tasks = planner.tasks(decode_offset(request["end"]))
    return [[[one.partition, one.start, one.end, one.token_epoch] for one in group] for group in tasks]


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
