"""Command line and environment of a consumer, the same for Spark applications and plain clients.

Secrets are never arguments. They are in the settings file (mode 0600) or in the environment, under the names of
`coordinator_tasks.settings`. An argument overrides the environment, and the environment overrides the file.
"""

import argparse
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from coordinator_tasks import logs
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.name_values import once
from coordinator_tasks.http_connections import host_and_port
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.settings import PREFIX
from coordinator_tasks.wiring import settings_from_environment
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.agent.settings import Pacing
from spark_apps.option_values import capacity, seconds

HOST, ADDRESS = "host", "address"
"""Words that `--advertise` takes in place of a URL."""


def _settings_of(run_folder: str) -> str | None:
    """Return the path of the settings file that the launcher writes for its consumer."""
    file = RunFolder(Path(run_folder)).settings
    return str(file) if run_folder and file.exists() else None


def _attribute(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is no attribute; give name=value, such as tier=gold")
    return name, value


def _listen(text: str) -> tuple[str, int]:
    found = host_and_port(text)
    if found is None:
        raise Refused(
            f"{text[:80]!r} is no address to listen at; give --listen host:port, such as 0.0.0.0:0 (0 = a free port)"
        )
    return found


def own_name(word: str, listen: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return this host's name for the URL that `--advertise host` or `--advertise address` announces for `listen`.

    Raises `Refused`.

    `address`: other hosts cannot resolve the name of a pod. YARN's NodeManager gives its name to the containers. For a
    name with an IPv6 address, clients try IPv6 first: listen on `[::]`, which takes IPv4 too; `0.0.0.0` takes only
    IPv4.
    """
    name = socket.gethostname()
    if word == HOST:
        return environ.get("NM_HOST") or name
    kind, family, or_else = (
        ("IP", socket.AF_UNSPEC, "") if ":" in listen else ("IPv4", socket.AF_INET, ", or --listen [::]:0")
    )
    try:
        address = str(socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise Refused(
            f"this host's name {name} has no {kind} address ({error}); give --advertise http://host:port{or_else}"
        ) from error
    if ipaddress.ip_address(address).is_loopback:
        raise Refused(
            f"this host's name {name} resolves to {address}, which other hosts cannot reach; give --advertise http://host:port"
        )
    return address


def add_consumer_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every consumer.

    Abbreviations are off, because the check of a fleet's arguments relies on full names.
    """
    parser.allow_abbrev = False
    parser.add_argument("--consumer", required=True, help="the stable id of this consumer")
    parser.add_argument("--cluster", help="the cluster of consumers it belongs to")
    parser.add_argument("--zookeeper", help="host:port,host:port[/folder]")
    parser.add_argument("--kafka", help="bootstrap servers, host:port,host:port")
    parser.add_argument("--settings", help="a settings file of mode 0600; it holds the secrets")
    parser.add_argument("--discovery", help="zookeeper, or file:/folder")
    parser.add_argument(
        "--topics",
        default="",
        help="names or regular expressions, separated by commas; default: the topics that the pipelines match, and for a plain consumer "
        "every topic of the cluster, also those of other fleets",
    )
    parser.add_argument("--listen", default="127.0.0.1:0", help="host:port of the status interface; 0 = a free one")
    parser.add_argument(
        "--advertise",
        default="",
        help="the URL of the status interface for other hosts; or host = this host's name (on YARN the node's), "
        "address = this host's IP address (in a pod the pod's), both with the bound port",
    )
    parser.add_argument("--rack", default="")
    parser.add_argument("--capacity", type=capacity, default=1.0, help="2 = takes twice the load, 0 = takes nothing")
    parser.add_argument(
        "--attribute",
        type=_attribute,
        action="append",
        default=[],
        help="name=value for a strategy of your own; any number",
    )
    parser.add_argument("--session-timeout", type=float, help="seconds of the ZooKeeper session")
    parser.add_argument("--start-timeout", type=seconds, default=60.0, help="seconds that a start waits for ZooKeeper")
    parser.add_argument("--close-timeout", type=seconds, default=30.0, help="seconds that a leave waits for hand-offs")
    parser.add_argument(
        "--max-poll-interval",
        type=seconds,
        default=300.0,
        help="seconds without progress, after which the consumer stops",
    )
    parser.add_argument(
        "--stop-timeout", type=seconds, default=120.0, help="seconds to finish the batch of a revoked partition"
    )
    parser.add_argument(
        "--slow-batch", type=seconds, default=30.0, help="seconds after which a batch is reported as slow"
    )
    parser.add_argument(
        "--batch-interval", type=seconds, default=Pacing().batch_interval_s, help="minimum seconds between two batches"
    )
    parser.add_argument(
        "--measure-bytes", action="store_true", help="sample records; plans can then use bytes per second"
    )
    parser.add_argument(
        "--run-folder", default="", help="the launcher's folder; the consumer writes its incarnation there"
    )


def consumer_settings(given: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ConsumerSettings:
    """Return the settings of this consumer. Raises `Refused` with the name of a missing or wrong setting."""
    overrides = {
        "SETTINGS": given.settings or _settings_of(given.run_folder),
        "CLUSTER": given.cluster,
        "ZOOKEEPER": given.zookeeper,
        "DISCOVERY": given.discovery,
        "KAFKA_BOOTSTRAP_SERVERS": given.kafka,
        "SESSION_TIMEOUT_S": given.session_timeout,
    }
    merged = {**environ, **{PREFIX + name: str(value) for name, value in overrides.items() if value is not None}}
    host, port = _listen(given.listen)
    by_word = given.advertise in (HOST, ADDRESS)
    return ConsumerSettings(
        site=settings_from_environment(merged),
        consumer=given.consumer,
        topics=tuple(name for one in given.topics.split(",") if (name := one.strip())),
        rack=given.rack,
        capacity=given.capacity,
        attributes=once(dict.fromkeys(given.attribute), "--attribute"),  # a fleet's version may repeat an attribute
        host=host,
        port=port,
        advertised="" if by_word else given.advertise,
        own_name=own_name(given.advertise, host, environ) if by_word else "",
        run_folder=given.run_folder,
        start_timeout_s=given.start_timeout,
        measure_bytes=given.measure_bytes,
        pacing=replace(Pacing(), batch_interval_s=given.batch_interval),
        agent_timing=replace(
            AgentTiming(),
            close_timeout_s=given.close_timeout,
            stalled_s=given.max_poll_interval,
            stop_s=given.stop_timeout,
            slow_batch_s=given.slow_batch,
        ),
    )


def set_up_logs(settings: ConsumerSettings) -> None:
    """Set the format of this process's log lines by the settings."""
    logs.set_up(settings.site.log_format)
    logs.know(cluster=settings.site.cluster, consumer=settings.consumer)
