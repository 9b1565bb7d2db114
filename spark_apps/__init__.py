"""The consumer side: a Spark data source for the Kafka partitions assigned to this application, and its agent.

`__all__` is the public interface: all names that a pipeline's author imports. Each name loads its module at first use,
because executors and the plain consumer import parts of this package without a Spark session.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_apps.agent.process.consumer_process import ConsumerSettings as ConsumerSettings
    from spark_apps.consumer import Consumer as Consumer
    from spark_apps.consumer import SparkSettings as SparkSettings
    from spark_apps.dead_letters import OnError as OnError
    from spark_apps.delivery import SinkUnavailable as SinkUnavailable
    from spark_apps.delivery import TransactionalSink as TransactionalSink
    from spark_apps.delivery.database import Database as Database
    from spark_apps.delivery.database import RowSink as RowSink
    from spark_apps.delivery.database_sink import DatabaseSink as DatabaseSink
    from spark_apps.delivery.hooks import ConsumerInterceptor as ConsumerInterceptor
    from spark_apps.delivery.hooks import ConsumerRebalanceListener as ConsumerRebalanceListener
    from spark_apps.delivery.hooks import Hooks as Hooks
    from spark_apps.delivery.lineage import Dataset as Dataset
    from spark_apps.delivery.lineage import file_dataset as file_dataset
    from spark_apps.delivery.lineage import table_dataset as table_dataset
    from spark_apps.delivery.lineage import writes_to as writes_to
    from spark_apps.lakehouse.delta import DeltaSink as DeltaSink
    from spark_apps.lakehouse.iceberg import IcebergSink as IcebergSink
    from spark_apps.pipelines import AtLeastOnce as AtLeastOnce
    from spark_apps.pipelines import AtMostOnce as AtMostOnce
    from spark_apps.pipelines import Build as Build
    from spark_apps.pipelines import ExactlyOnce as ExactlyOnce
    from spark_apps.pipelines import setting as setting
    from spark_apps.pipelines.json_records import document as document
    from spark_apps.pipelines.json_records import lines as lines
    from spark_apps.pipelines.protobuf_records import as_json as as_json
    from spark_apps.pipelines.schema_registry import decoded as decoded
    from spark_apps.pipelines.schema_registry import subject_of as subject_of
    from spark_apps.pipelines.schema_registry import undecoded as undecoded
    from spark_apps.plain import Output as Output
    from spark_apps.plain import PlainConsumer as PlainConsumer
    from spark_apps.spark.session import configure as configure
    from spark_apps.spark.session import ship_packages as ship_packages
    from spark_apps.state.stateful import Stateful as Stateful

_PLACES = {
    "agent.process.consumer_process": ("ConsumerSettings",),
    "consumer": ("Consumer", "SparkSettings"),
    "dead_letters": ("OnError",),
    "delivery": ("SinkUnavailable", "TransactionalSink"),
    "delivery.database": ("Database", "RowSink"),
    "delivery.database_sink": ("DatabaseSink",),
    "delivery.hooks": ("ConsumerInterceptor", "ConsumerRebalanceListener", "Hooks"),
    "delivery.lineage": ("Dataset", "file_dataset", "table_dataset", "writes_to"),
    "lakehouse.delta": ("DeltaSink",),
    "lakehouse.iceberg": ("IcebergSink",),
    "pipelines": ("AtLeastOnce", "AtMostOnce", "Build", "ExactlyOnce", "setting"),
    "pipelines.json_records": ("document", "lines"),
    "pipelines.protobuf_records": ("as_json",),
    "pipelines.schema_registry": ("decoded", "subject_of", "undecoded"),
    "plain": ("Output", "PlainConsumer"),
    "spark.session": ("configure", "ship_packages"),
    "state.stateful": ("Stateful",),
}
_PLACE = {name: f"{__name__}.{module}" for module, names in _PLACES.items() for name in names}
__all__ = sorted(_PLACE)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    """Return the public name from its module; raise `AttributeError` for any other name."""
    if name not in _PLACE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_PLACE[name]), name)
