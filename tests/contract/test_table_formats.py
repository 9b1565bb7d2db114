"""Tables that a sink for Delta Lake or Iceberg cannot use: one clear error each, and nothing is written."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from spark_apps.delivery import SinkStep, SinkUnavailable
from spark_apps.lakehouse import TableRefused
from spark_apps.lakehouse.delta import FORGETS, DeltaSink, _checkpoint_files
from spark_apps.lakehouse.iceberg import IcebergSink
from tests.rest_catalog import catalog_in
from tests.sink_bench import ICEBERG, OLD, SCHEMA, patient_claim, rows_of, table_sink
from tests.table_writer import WRITER

FUTURE = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["future"], "writerFeatures": ["future"]}
STEPS = {0: SinkStep(OLD, 0, 2)}


def edited(folder: Path, protocol: dict[str, Any]) -> Path:
    """A Delta table with this protocol."""
    DeltaTable.create(str(folder), SCHEMA)
    commit = folder / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    commit.write_text("\n".join(json.dumps({"protocol": protocol} if "protocol" in one else one) for one in actions))
    return folder


@pytest.mark.parametrize(
    "protocol", [FUTURE, {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["future"]}]
)
def test_a_delta_table_of_a_newer_protocol_is_refused(tmp_path: Path, protocol: dict[str, Any]) -> None:
    sink = DeltaSink(str(edited(tmp_path / "texts", protocol)))
    with pytest.raises(TableRefused, match=r"cannot be read or written: .*future"):
        patient_claim(sink, WRITER, {0: OLD})
    assert len(list((tmp_path / "texts" / "_delta_log").iterdir())) == 1


def test_a_delta_table_that_deletes_positions_is_refused(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "texts"), SCHEMA)
    table.alter.set_table_properties({FORGETS: "interval 30 days"}, raise_if_not_exists=False)
    with pytest.raises(TableRefused, match=f"has the property {FORGETS}, by which positions are deleted"):
        patient_claim(DeltaSink(str(tmp_path / "texts")), WRITER, {0: OLD})


def test_executors_write_no_files_for_a_delta_table_that_needs_more(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "parted"), SCHEMA, partition_by=["topic"])
    with pytest.raises(TableRefused, match="has partition columns: let the driver write the rows"):
        DeltaSink(str(tmp_path / "parted"))._written.file_writer()
    DeltaTable.create(str(tmp_path / "checked"), SCHEMA).alter.add_constraint({"few": "offset < 9"})
    with pytest.raises(TableRefused, match=r"has the property delta.constraints.few: let the driver write the rows"):
        DeltaSink(str(tmp_path / "checked"))._written.file_writer()


def test_an_iceberg_table_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    patient_claim(table_sink("iceberg", tmp_path), WRITER, {0: OLD})
    for file in tmp_path.rglob("*.metadata.json"):
        file.write_text(file.read_text().replace('"format-version":2', '"format-version":9'))
    with pytest.raises(TableRefused, match=r"cannot be read or written: .*9"):
        patient_claim(table_sink("iceberg", tmp_path), WRITER, {0: OLD})


def test_a_store_or_a_catalog_that_is_away_takes_no_claims() -> None:
    place = f"http://{HOST}:{free_port()}"
    options = {"AWS_ENDPOINT_URL": place, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "a", "AWS_REGION": "b"}
    for sink in (
        DeltaSink("s3://bucket/texts", options | {"AWS_SECRET_ACCESS_KEY": "c"}),
        IcebergSink("tests", ICEBERG, {"type": "rest", "uri": place}),
    ):
        began = time.monotonic()
        with pytest.raises(SinkUnavailable, match=r"does not answer|has not taken the claim within"):
            sink.claim(WRITER, {0: OLD}, {})
        assert time.monotonic() - began < 2


def test_a_position_that_another_program_has_changed_is_refused(tmp_path: Path) -> None:
    sink = table_sink("iceberg", tmp_path)
    patient_claim(sink, WRITER, {0: OLD})
    table = load_catalog("tests", **catalog_in(tmp_path)).load_table(ICEBERG)
    with table.transaction() as transaction:
        transaction.set_properties({"kafka/c/orders/0": "{}"})
    with pytest.raises(TableRefused, match="has a property kafka/c/orders/0 that another program has changed"):
        sink.write(WRITER, STEPS, rows_of(WRITER, STEPS))


@pytest.mark.parametrize(
    ("last", "files"),
    [
        ({"version": 7}, [f"{7:020}.checkpoint.parquet"]),
        ({"version": 7, "parts": 2}, [f"{7:020}.checkpoint.{n:010}.{2:010}.parquet" for n in (1, 2)]),
        ({"version": 7, "v2Checkpoint": {"path": "7.checkpoint.uuid.json"}}, ["7.checkpoint.uuid.json"]),
    ],
)
def test_each_form_of_a_checkpoint_is_found(last: dict[str, Any], files: list[str]) -> None:
    assert _checkpoint_files(last) == files
