"""A Kubernetes API server with its etcd, for a test."""

import base64
import json
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from tests.certificates import Authority
from tests.clusters.engine import Engine
from tests.clusters.programs import program

ADMIN, SUBMITTER = "admin", "system:serviceaccount:default:spark-submitter"
TOKENS = {ADMIN: "planted-admin-token", SUBMITTER: "planted-submitter-token"}
APPLY_S = 120.0


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: tests, cluster: {{server: "{url}", certificate-authority: {ca}}}}}]
users: [{{name: admin, user: {{token: {token}}}}}]
contexts: [{{name: tests, context: {{cluster: tests, user: admin}}}}]
current-context: tests
"""


class ApiServer(Engine):
    """An API server without nodes: what is created stays as it is. `tokens` are files, one for each user."""

    def __init__(self, folder: Path, host: str = HOST) -> None:
        super().__init__(folder)
        self.url = f"https://{host}:{free_port()}"
        authority = Authority(folder / "pki", "kubernetes")
        self.ca = authority.ca
        server, self.accounts = authority.sign("server", address=host), authority.sign("accounts")
        self.tokens = {name: folder / f"{name.rpartition(':')[2]}.token" for name in TOKENS}
        for name, file in self.tokens.items():
            _write_private(file, TOKENS[name])
        known = folder / "tokens.csv"
        groups = {ADMIN: ',"system:masters"', SUBMITTER: ""}
        _write_private(known, "".join(f"{TOKENS[name]},{name},{name}{group}\n" for name, group in groups.items()))
        self.kubeconfig = folder / "kubeconfig"
        _write_private(self.kubeconfig, KUBECONFIG.format(url=self.url, ca=self.ca, token=TOKENS[ADMIN]))
        store, peer = f"http://{HOST}:{free_port()}", f"http://{HOST}:{free_port()}"
        self._context = ssl.create_default_context(cafile=str(self.ca))
        self.add(
            "etcd",
            str(program("etcd")),
            *("--data-dir", str(folder / "etcd"), "--unsafe-no-fsync=true"),
            *("--listen-client-urls", store, "--advertise-client-urls", store),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
            ),
            ready=lambda: _answers(f"{store}/readyz"),
        )
        self.add(
            "kube-apiserver",
            str(program("kube")),
            "kube-apiserver",
            *(f"--etcd-servers={store}", f"--secure-port={self.url.rpartition(':')[2]}", f"--bind-address={host}"),
            *(f"--advertise-address={host}", f"--cert-dir={folder}"),
            *(f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}"),
            *(f"--client-ca-file={self.ca}", f"--token-auth-file={known}", "--authorization-mode=RBAC"),
            *(
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self.accounts.certificate}",
            ),
            *(f"--service-account-signing-key-file={self.accounts.key}", "--service-cluster-ip-range=10.96.0.0/16"),
            *("--endpoint-reconciler-type=none", "--kubelet-preferred-address-types=InternalIP"),
            ready=lambda: self.find("/readyz") is not None,
        )

    def ask(self, path: str, body: object = None, *, user: str = ADMIN) -> Any:
        """The answer of the API; with a body, what it has created. Raises `HTTPError`."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.tokens[user].read_text()}",
            "Content-Type": "application/json",
        }
        asked = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(asked, timeout=20.0, context=self._context) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith("{") else text

    def find(self, path: str) -> Any:
        """The same, or `None` for what is not there and while nobody answers."""
        try:
            return self.ask(path)
        except (urllib.error.HTTPError, OSError):
            return None

    def secret(self, name: str, **content: str) -> None:
        """Create a Secret; names with _ for a point."""
        data = {key.replace("_", "."): base64.b64encode(text.encode()).decode() for key, text in content.items()}
        self.ask("/api/v1/namespaces/default/secrets", {"metadata": {"name": name}, "data": data})

    def kubectl(self, *words: str) -> str:
        """What an administrator types; raises `AssertionError` with its words."""
        command = [str(program("kube")), "kubectl", f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=APPLY_S, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0):
            return True
    except OSError:
        return False
