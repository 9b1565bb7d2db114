"""The coordinator's metrics for Prometheus, for sites whose Airflow sends none: an observation every few seconds, and
an HTTP server.

`/metrics` gives the last observation. `/targets` lists the consumers' interfaces for Prometheus' `http_sd_configs`. On
loopback the interface is open. At any other address a request needs the status token, as at a consumer.
"""

import json
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

import typer

from coordinator_tasks.cli import metrics_text
from coordinator_tasks.cli.base import RUN, given_settings, opened
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.fleet.interface_addresses import is_loopback, is_plain
from coordinator_tasks.core.machine.world import Presence
from coordinator_tasks.exposition import CONTENT_TYPE
from coordinator_tasks.http_connections import BoundedHandler, BoundedServer, host_and_port
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.watch.overview import DRAINING
from coordinator_tasks.service.watch.survey import Survey, Surveyor
from coordinator_tasks.signals import stopped_by
from coordinator_tasks.status_tokens import StatusTokens

METRICS_PATH, TARGETS_PATH = "/metrics", "/targets"
_SCRAPED = (Presence.LIVE, DRAINING, Presence.DETACHED)

commands = typer.Typer()
log = logging.getLogger(__name__)


@commands.command(rich_help_panel=RUN)
def metrics(
    context: typer.Context,
    listen: Annotated[
        str, typer.Option(help="host:port of the HTTP server; port 0 takes a free port.")
    ] = "127.0.0.1:9308",
    every_s: Annotated[float, typer.Option("--every", min=1, max=300, help="Seconds between two looks.")] = 10.0,
    partitions: Annotated[
        int,
        typer.Option(min=0, help="Partitions with series of their own; coordinator_series_left_out counts the rest."),
    ] = metrics_text.PARTITIONS,
) -> None:
    """Serve the coordinator's metrics for Prometheus at /metrics, until SIGINT or SIGTERM.

    /targets names the consumers' interfaces for http_sd_configs. An address other than loopback needs the status token.
    """
    with stopped_by(signal.SIGINT, signal.SIGTERM) as stop, opened(context) as c:
        page = MetricsPage(c.paths.cluster)
        with serving(page, listen, _tokens(context)) as address:
            waiting.stop()
            print(f"metrics of cluster {c.paths.cluster} at {address}{METRICS_PATH}; end with Ctrl-C", flush=True)
            keep_looking(c, page, every_s, stop, partitions)


def _tokens(context: typer.Context) -> StatusTokens:
    if context.obj is not None:  # in tests, an opener without settings is given
        return StatusTokens()
    settings = given_settings()
    return StatusTokens(settings.status_token, settings.status_token_file)


class MetricsPage:
    """The server's answers. Each observation replaces them."""

    def __init__(self, cluster: str) -> None:
        self.metrics = metrics_text.exposed(None, cluster, 0.0, 0.0)
        self.targets = b"[]"


def keep_looking(
    c: Coordinator, page: MetricsPage, every_s: float, stop: threading.Event, partitions: int = metrics_text.PARTITIONS
) -> None:
    """Observe until `stop` is set. A failed observation is reported once, and leaves only `coordinator_survey_up` 0."""
    surveyor, problem, looked_at, took_s = Surveyor(c), "", 0.0, 0.0
    while True:
        began_s = c.clock.monotonic()
        found: Survey | None = None
        try:
            found = surveyor.look()
            looked_at, took_s = c.clock.now(), c.clock.monotonic() - began_s
            page.targets = json.dumps(list(_targets(found, https_only=c.https_only))).encode()
            if problem:
                log.warning("everything answers again")
            problem = ""
        except CoordinatorError as error:
            if str(error) != problem:
                problem = str(error)
                log.warning("the metrics are not known now: %s", error.told)
        page.metrics = metrics_text.exposed(found, c.paths.cluster, looked_at, took_s, partitions)
        if stop.wait(max(0.0, every_s - (c.clock.monotonic() - began_s))):
            return


def _targets(found: Survey, *, https_only: bool) -> Iterator[dict[str, object]]:
    """Yield each consumer that may run partitions, in the form of Prometheus' HTTP service discovery.

    `https_only`: leave out interfaces with plain http, and interfaces whose certificate this observation has refused,
    because Prometheus would send its token to them. `status` names them. A live consumer that is isolated is included,
    because only its own metrics show fenced commits.
    """
    for one in found.consumers:
        address = urlsplit(one.address)
        lives_on = one.presence == Presence.ISOLATED and one.health
        if https_only and (is_plain(one.address) or one.consumer in found.broken):
            continue
        if (one.presence in _SCRAPED or lives_on) and address.netloc:
            path = address.path.rstrip("/") + METRICS_PATH
            yield {"targets": [address.netloc], "labels": {"__scheme__": address.scheme, "__metrics_path__": path}}


@contextmanager
def serving(page: MetricsPage, listen: str, tokens: StatusTokens) -> Iterator[str]:
    """Serve the page during the block; yield the server's URL. Raises `Refused` if the address cannot be used."""
    address = host_and_port(listen)
    if address is None:
        raise Refused(f"{listen!r} is no address to listen at; write host:port, such as 127.0.0.1:9308")
    host = address[0]
    if not tokens.all() and not is_loopback(host):
        raise Refused(
            f"the metrics would be served at {host} without a token, open to the network; set a status token, "
            "or listen at 127.0.0.1"
        )
    try:
        server = BoundedServer(address, type("BoundHandler", (_Handler,), {"page": page, "tokens": tokens}))
    except OSError as error:
        raise Refused(f"the metrics cannot be served at {listen} ({error}); choose another address") from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{listen.rpartition(':')[0]}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        server.end_connections()
        thread.join()


class _Handler(BoundedHandler):
    """Handles one request per connection."""

    page: MetricsPage
    tokens: StatusTokens
    server_version = "coordinator"
    sys_version = ""

    def do_GET(self) -> None:  # noqa: N802 - the base class looks for it
        tokens = self.tokens.all()
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        if "Origin" in self.headers or not (tokens or is_loopback(host)):
            # A web page can let a name of its own lead to this address. So without a token, only loopback's names get
            # an answer.
            self.send(HTTPStatus.FORBIDDEN, b'{"error": "web pages get no answer"}')
        elif tokens and not self.brings_one_of(tokens):
            self.send(HTTPStatus.UNAUTHORIZED, b'{"error": "the token is missing or wrong"}')
        elif self.path == METRICS_PATH:
            self.send(HTTPStatus.OK, self.page.metrics, CONTENT_TYPE)
        elif self.path == TARGETS_PATH:
            self.send(HTTPStatus.OK, self.page.targets)
        else:
            known = {"error": f"there are {METRICS_PATH} and {TARGETS_PATH}"}
            self.send(HTTPStatus.NOT_FOUND, json.dumps(known).encode())
