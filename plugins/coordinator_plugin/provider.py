"""Describes the installed package to Airflow: connections, configuration options, and classes by their paths.

Every process of Airflow reads this module, so it imports almost nothing.
"""

from importlib.metadata import version
from typing import Any

from coordinator_plugin.site_options import OPTIONS, SECTION

PACKAGE = "kafka-partition-coordinator"
ZOOKEEPER, ZOOKEEPER_NAME = "kafka_coordinator_zookeeper", "Kafka coordinator: ZooKeeper"
KAFKA, KAFKA_NAME = "kafka_coordinator_kafka", "Kafka coordinator: Kafka"
_HOOKS = "coordinator_plugin.connections"
_NAME = "Kafka partition coordinator"
_NO_PLACEHOLDERS = {"host": "", "login": "", "password": "", "port": "", "extra": ""}


def provider_info() -> dict[str, Any]:
    """Return the description, by the schema of `airflow/provider_info.schema.json`."""
    return {
        "package-name": PACKAGE,
        "name": _NAME,
        "description": "A central coordinator decides which consumer reads which Kafka partition.",
        "versions": [version(PACKAGE)],
        "integrations": [{"integration-name": _NAME, "tags": ["software"]}],
        "hooks": _modules("connections", "hook"),
        "operators": _modules("operators", "question", "launch", "upkeep"),
        "triggers": _modules("triggers", "watcher"),
        "bundles": _modules("bundle"),
        "extra-links": ["coordinator_plugin.links.ClusterPageLink", "coordinator_plugin.links.ResultLink"],
        "notifications": ["coordinator_plugin.notifications.StuckTopicsNotifier"],
        "config": {
            SECTION: {
                "description": "The options of this Airflow's coordinator; variables COORDINATOR_... override them.",
                "options": {
                    name: {
                        "description": one.what,
                        "version_added": "0.2.0",
                        "type": "string",
                        "example": one.example,
                        "default": one.default,
                    }
                    for name, one in OPTIONS.items()
                },
            }
        },
        "connection-types": [
            {
                "connection-type": ZOOKEEPER,
                "hook-class-name": f"{_HOOKS}.ZooKeeperConnectionHook",
                "hook-name": ZOOKEEPER_NAME,
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {"host": "ZooKeeper servers"},
                    "placeholders": {**_NO_PLACEHOLDERS, "host": "zk1:2181,zk2:2181", "port": "2181"},
                },
                "conn-fields": {
                    "chroot": _field("Chroot", "The node under which the coordinator's nodes are; empty = the root."),
                    "status_token": _field(
                        "Status token", "The secret that consumers and coordinator share.", format="password"
                    ),
                },
            },
            {
                "connection-type": KAFKA,
                "hook-class-name": f"{_HOOKS}.KafkaConnectionHook",
                "hook-name": KAFKA_NAME,
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {"host": "Brokers", "login": "SASL user", "password": "SASL password"},
                    "placeholders": {**_NO_PLACEHOLDERS, "host": "broker1:9092,broker2:9092", "port": "9092"},
                },
                "conn-fields": {
                    "security.protocol": _field("Security protocol", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."),
                    "sasl.mechanism": _field("SASL mechanism", "SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or GSSAPI."),
                    "ssl.ca.location": _field("CA file", "Path of the authority's certificate on Airflow's hosts."),
                },
            },
        ],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"coordinator_plugin.{name}" for name in names]}]


def _field(label: str, description: str, **schema: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}
