"""The API of external metrics, where a horizontal pod autoscaler asks for a number. On a cluster with KEDA it is KEDA's."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from coordinator_tasks.devstack.embedded.ports import HOST
from tests.certificates import Authority
from tests.clusters.kubernetes import ApiServer

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
Number = Callable[[], float | None]
"""`None`: there is none, and the API answers with an error, as KEDA's does."""


@contextmanager
def external_metrics(api: ApiServer, folder: Path, number: Number) -> Iterator[None]:
    """Every metric of this cluster has this number, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith(f"/{GROUP}/{VERSION}"):
                self._answer(200, _resources())
            elif "/namespaces/" in path and (found := number()) is not None:
                self._answer(200, _values(path.rpartition("/")[2], found))
            else:
                status = {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "message": "no number",
                    "code": 500,
                }
                self._answer(500, status)

        def _answer(self, code: int, body: object) -> None:
            raw = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    own = Authority(folder, "metrics").sign("server", address=HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="external-metrics")
    thread.start()
    try:
        _register(api, server.server_port)
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _register(api: ApiServer, port: int) -> None:
    """Let the API server pass requests on; an `ExternalName` needs no proxy for addresses of services."""
    api.ask(
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "metrics"}, "spec": {"type": "ExternalName", "externalName": "localhost"}},
    )
    spec = {
        "group": GROUP,
        "version": VERSION,
        "service": {"namespace": "default", "name": "metrics", "port": port},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    api.ask("/apis/apiregistration.k8s.io/v1/apiservices", {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": spec})


def _resources() -> object:
    one = {"name": "externalmetrics", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
    found = {"groupVersion": f"{GROUP}/{VERSION}", "resources": [{**one, "verbs": ["get"]}]}
    return {"kind": "APIResourceList", "apiVersion": "v1", **found}


def _values(metric: str, found: float) -> object:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    one = {"metricName": metric, "metricLabels": None, "timestamp": now, "value": f"{found:g}"}
    return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": [one]}
