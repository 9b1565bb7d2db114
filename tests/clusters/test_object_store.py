"""Tables of a lakehouse in an object store: consumers that write at once, and a new owner, by the protocol of S3.

The server is moto's, in an environment of its own.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from coordinator_tasks.devstack.embedded.ports import HOST, free_port, listening
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from spark_apps.delivery import SinkStep
from spark_apps.lakehouse.delta import DeltaSink
from spark_apps.lakehouse.iceberg import IcebergSink
from spark_apps.lakehouse.table_sink import TableSink
from tests.clusters.environments import new_environment
from tests.sink_bench import ICEBERG, NEW, OLD, SCHEMA, patient_claim, rows_of
from tests.table_writer import WRITER

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(600)]
MOTO = "moto[s3,server]==5.2.5"
ACCOUNT = {"key": "account", "secret": "secret", "region": "us-east-1"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """The address of an object store with the bucket `lake`."""
    environment, port = new_environment(tmp_path / "moto"), free_port()
    environment.install(MOTO)
    argv = (environment.program("moto_server"), "--host", HOST, "--port", str(port))
    server = ManagedProcess(ProcessSpec("moto", argv, tmp_path / "moto.log"), lambda: listening(port))
    server.start()
    pyarrow.fs.S3FileSystem(
        endpoint_override=f"{HOST}:{port}",
        scheme="http",
        access_key=ACCOUNT["key"],
        secret_key=ACCOUNT["secret"],
        region=ACCOUNT["region"],
        allow_bucket_creation=True,
    ).create_dir("lake")
    yield f"http://{HOST}:{port}"
    server.stop()


def check(sink: Callable[[], TableSink], offsets: Callable[[int], list[int]]) -> None:
    """Three consumers write at once; a new owner goes on, and the former owner is refused."""

    def consume(partition: int) -> TableSink:
        consumer = sink()
        patient_claim(consumer, WRITER, {partition: OLD})
        for start in range(0, 30, 10):
            steps = {partition: SinkStep(OLD, start, start + 10)}
            assert consumer.write(WRITER, steps, rows_of(WRITER, steps)) == {}
        return consumer

    with ThreadPoolExecutor() as pool:
        former, *_ = pool.map(consume, range(3))
    found = patient_claim(sink(), WRITER, dict.fromkeys(range(3), NEW))
    assert {partition: entry.offset for partition, entry in found.items()} == dict.fromkeys(range(3), 30)
    late = {0: SinkStep(OLD, 30, 40)}
    assert former.write(WRITER, late, rows_of(WRITER, late)).keys() == {0}
    assert [offsets(partition) for partition in range(3)] == [list(range(30))] * 3


def offsets_in(rows: pyarrow.Table, partition: int) -> list[int]:
    return sorted(row["offset"] for row in rows.to_pylist() if row["partition"] == partition)


def test_delta_tables_in_an_object_store(store: str) -> None:
    options = {
        "AWS_ENDPOINT_URL": store,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": ACCOUNT["key"],
        "AWS_SECRET_ACCESS_KEY": ACCOUNT["secret"],
        "AWS_REGION": ACCOUNT["region"],
    }
    place = "s3://lake/delta"
    check(
        lambda: DeltaSink(place, options, schema=SCHEMA),
        lambda partition: offsets_in(DeltaTable(place, storage_options=options).to_pyarrow_table(), partition),
    )


def test_iceberg_tables_in_an_object_store(store: str, tmp_path: Path) -> None:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.sqlite",
        "warehouse": "s3://lake/iceberg",
        "s3.endpoint": store,
        "s3.access-key-id": ACCOUNT["key"],
        "s3.secret-access-key": ACCOUNT["secret"],
        "s3.region": ACCOUNT["region"],
    }
    check(
        lambda: IcebergSink("tests", ICEBERG, properties, schema=SCHEMA),
        lambda partition: offsets_in(
            load_catalog("tests", **properties).load_table(ICEBERG).scan().to_arrow(), partition
        ),
    )
