"""Reports to OpenLineage which topics a consumer reads and which datasets it writes.

Active if the process has OpenLineage's settings: variables `OPENLINEAGE_...`, or the file in `OPENLINEAGE_CONFIG`. A
launch by Airflow writes this file from the section `[openlineage]` of Airflow's configuration. Needs the package
`openlineage-python`.

A job is a topic of a group. A run is the reading of the topic by one incarnation, from the query's start to its end. A
separate thread sends the events, so no hand-off waits. A refused event is logged and dropped.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from queue import Empty, Full, Queue
from typing import Any, TypeVar

from coordinator_tasks import __version__
from spark_apps.delivery.dialects import dialect_of

PREFIX = "OPENLINEAGE_"
DISABLED = PREFIX + "DISABLED"
NAMESPACE = PREFIX + "NAMESPACE"
PRODUCER = "urn:kafka-partition-coordinator"
ENGINE = "KAFKA_PARTITION_COORDINATOR"
MAX_WAITING = 1_000
FLUSH_S = 5.0
F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset by OpenLineage's naming, such as `postgres://host:5432` and `shop.public.orders`."""

    namespace: str
    name: str


Outputs = Callable[[Mapping[str, str]], Iterable[Dataset]]


def writes_to(outputs: Outputs) -> Callable[[F], F]:
    """Declare the datasets that a pipeline's function writes. `outputs` computes them from the pipeline's settings."""

    def note(build: F) -> F:
        build.outputs = outputs  # type: ignore[attr-defined]
        return build

    return note


def outputs_of(build: object, settings: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Return the declared outputs of a pipeline; empty without a declaration."""
    outputs: Outputs | None = getattr(build, "outputs", None)
    try:
        return () if outputs is None else tuple(outputs(settings))
    except BaseException as error:  # noqa: BLE001 - the edge of a user's function: the query starts all the same
        log.warning("what %s writes is not told: %s", getattr(build, "__name__", build), error)
        return ()


def topic_dataset(brokers: str, topic: str) -> Dataset:
    """Return a topic's dataset. It names the alphabetically first broker, so that all consumers use the same name."""
    first = min(one.strip().rpartition("://")[2] for one in brokers.split(","))
    return Dataset(f"kafka://{first}", topic)


def table_dataset(url: str, table: str) -> Dataset:
    """Return the dataset of a sink's table. The database's address is one of `dialects`."""
    return Dataset(*dialect_of(url).dataset(url, table))


def file_dataset(path: str | Path) -> Dataset:
    """Return the dataset of a file or folder on this host."""
    return Dataset("file", str(Path(path).absolute()))


def is_on(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the process has OpenLineage's settings and these do not disable it."""
    given = any(name.startswith(PREFIX) and name not in (DISABLED, NAMESPACE) for name in environ)
    return given and environ.get(DISABLED, "").strip().lower() != "true"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts about the reading consumer, for a run."""

    cluster: str
    consumer: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class _Run:
    number: str
    job: str
    read: Dataset
    written: tuple[Dataset, ...]


class Lineage:
    """Reports when a consumer's runs begin and end, from any thread. `emit` may block without delaying callers."""

    def __init__(self, reader: RunFacts, emit: Callable[[Any], None], namespace: str) -> None:
        self._reader = reader
        self._emit = emit
        self._namespace = namespace
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._waiting: Queue[Any] = Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._send, name="lineage", daemon=True)
        self._thread.start()

    def began(self, topic: str, group: str, brokers: str, outputs: Sequence[Dataset]) -> None:
        """Report the begin of a topic's reading. A run under way continues, with these outputs."""
        new_number = import_module("openlineage.client.uuid").generate_new_uuid
        with self._lock:
            known = self._runs.get(topic)
            number = known.number if known is not None else str(new_number())
            job = f"{self._reader.cluster}.{group}.{topic}"
            run = self._runs[topic] = _Run(number, job, topic_dataset(brokers, topic), tuple(outputs))
            self._tell("START" if known is None else "RUNNING", run)

    def ended(self, topic: str, problem: str = "") -> None:
        """Report the end of a topic's reading, with the problem if any. A topic without a run is ignored."""
        with self._lock:
            run = self._runs.pop(topic, None)
            if run is not None:
                self._tell("FAIL" if problem else "COMPLETE", run, problem)

    def close(self) -> None:
        """End the open runs and send the queued events, within `FLUSH_S`."""
        for topic in tuple(self._runs):
            self.ended(topic)
        self._closed.set()
        self._thread.join(FLUSH_S)

    def _tell(self, kind: str, run: _Run, problem: str = "") -> None:
        try:
            self._waiting.put_nowait(_event(kind, run, self._namespace, self._reader, problem))
        except Full:
            log.warning("OpenLineage takes no events: one is left out", extra={"topic": run.read.name})

    def _send(self) -> None:
        while not (self._closed.is_set() and self._waiting.empty()):
            try:
                event = self._waiting.get(timeout=0.1)
            except Empty:
                continue
            try:
                self._emit(event)
            except Exception as error:  # noqa: BLE001 - the edge of a thread, and of a site's transport
                log.warning("OpenLineage did not take an event: %s", error)


def opened(reader: RunFacts, environ: Mapping[str, str] = os.environ) -> Lineage | None:
    """Return the lineage of this process; `None` if off or unusable. The log gives the reason if unusable."""
    if not is_on(environ):
        return None
    try:
        client = import_module("openlineage.client").OpenLineageClient()
    except ImportError:
        log.warning(
            "OpenLineage is set up, and its client is not installed here: nothing is told; install openlineage-python "
            "(the extra `lineage`), or set OPENLINEAGE_DISABLED=true"
        )
        return None
    except Exception as error:  # noqa: BLE001 - a site's transport is anybody's class
        log.warning("OpenLineage is set up and cannot be used: %s; nothing is told", error)
        return None
    return Lineage(reader, client.emit, environ.get(NAMESPACE) or "default")


def _event(kind: str, run: _Run, namespace: str, reader: RunFacts, problem: str) -> Any:
    events, facets = import_module("openlineage.client.event_v2"), import_module("openlineage.client.facet_v2")
    tag, facts = facets.tags_run.TagsRunFacetFields, {"cluster": reader.cluster, "consumer": reader.consumer}
    facts["incarnation"] = str(reader.incarnation)
    about = {"tags": facets.tags_run.TagsRunFacet([tag(key, value, "COORDINATOR") for key, value in facts.items()])}
    about["processing_engine"] = facets.processing_engine_run.ProcessingEngineRunFacet(__version__, ENGINE)
    if problem:
        about["errorMessage"] = facets.error_message_run.ErrorMessageRunFacet(problem, "python")
    streaming = facets.job_type_job.JobTypeJobFacet("STREAMING", ENGINE, "QUERY")
    return events.RunEvent(
        eventTime=datetime.now(UTC).isoformat(),
        eventType=events.RunState[kind],
        run=events.Run(run.number, facets=about),
        job=events.Job(namespace, run.job, facets={"jobType": streaming}),
        inputs=[events.InputDataset(run.read.namespace, run.read.name)],
        outputs=[events.OutputDataset(one.namespace, one.name) for one in run.written],
        producer=PRODUCER,
    )
