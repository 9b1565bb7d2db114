"""The public interface of `spark_apps`: a change of the list is a change for every pipeline's author."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spark_apps

ROOT = Path(__file__).parents[3]
PUBLIC = {
    *("PlainConsumer", "Output"),
    *("Consumer", "ConsumerSettings", "SparkSettings", "configure", "ship_packages", "Build", "setting"),
    *(
        "ExactlyOnce",
        "AtLeastOnce",
        "AtMostOnce",
        "TransactionalSink",
        "SinkUnavailable",
        "DatabaseSink",
        "Database",
        "RowSink",
    ),
    *("Stateful", "OnError", "DeltaSink", "IcebergSink"),
    *("Hooks", "ConsumerRebalanceListener", "ConsumerInterceptor"),
    *("document", "lines", "decoded", "undecoded", "subject_of", "as_json"),
    *("writes_to", "Dataset", "table_dataset", "file_dataset"),
}


def test_the_names_are_these() -> None:
    assert set(spark_apps.__all__) == PUBLIC


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(spark_apps.__file__).read_text())
    seen = {
        name.asname: getattr(sys.modules[statement.module or ""], name.name)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("spark_apps")
        for name in statement.names
        if getattr(spark_apps, name.name) is not None  # loads the module
    }
    assert seen == {name: getattr(spark_apps, name) for name in PUBLIC}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute Consumers"):
        spark_apps.Consumers  # noqa: B018


def test_the_package_alone_loads_neither_spark_nor_kafka() -> None:
    code = "import sys, spark_apps; sys.exit(bool({'pyspark', 'confluent_kafka'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
