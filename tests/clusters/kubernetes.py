"""Kubernetes' own programs, built once from their sources as Go modules, and an API server with its etcd for a test.

`go.sum` beside each program pins the checksum of every module. The binaries lie in the cache folder, outside the repository.
"""

import base64
import json
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from coordinator_tasks.embedded.cache import exclusive
from coordinator_tasks.embedded.ports import HOST, free_port
from coordinator_tasks.embedded.processes import ManagedProcess, ProcessSpec
from tests.certificates import Authority

PROGRAMS = Path(__file__).with_name("kubernetes_programs")
VERSIONS = {"kube": "1.34.4", "etcd": "3.6.13"}
BUILD_S = 3_600.0
READY_S = 180.0
ADMIN, SUBMITTER = "admin", "submitter"
_STAMP = "k8s.io/component-base/version"


def program(name: str) -> Path:
    """The binary of `kube` (API server, controllers, scheduler, kubelet, kubectl) or `etcd`; builds it if it is missing."""
    with exclusive(f"{name}-{VERSIONS[name]}") as folder:
        built = folder / f"{name}-{VERSIONS[name]}"
        if not built.exists():
            _build(name, built)
    return built


def _build(name: str, target: Path) -> None:
    stamps = f"-X {_STAMP}.gitVersion=v{VERSIONS[name]} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=34"
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as folder:
        source = Path(folder) / "source"
        shutil.copytree(PROGRAMS / name, source)
        made = Path(folder) / name
        command = ["go", "build", "-mod=readonly", "-trimpath", f"-ldflags=-s -w {stamps}", "-o", str(made), "."]
        subprocess.run(command, cwd=source, check=True, timeout=BUILD_S)
        made.rename(target)


class ApiServer:
    """An API server without nodes: what is created stays as it is. `tokens` are files, one for each user."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.url = f"https://{HOST}:{free_port()}"
        authority = Authority(folder / "pki", "kubernetes")
        self.ca = authority.ca
        server, accounts = authority.sign("server"), authority.sign("accounts")
        self.tokens = {name: folder / f"{name}.token" for name in (ADMIN, SUBMITTER)}
        for name, file in self.tokens.items():
            file.touch(mode=0o600)
            file.write_text(f"planted-{name}-token")
        known = folder / "tokens.csv"
        known.touch(mode=0o600)
        groups = {ADMIN: ',"system:masters"', SUBMITTER: ""}
        known.write_text("".join(f"planted-{name}-token,{name},{name}{groups[name]}\n" for name in groups))
        store, peer = f"http://{HOST}:{free_port()}", f"http://{HOST}:{free_port()}"
        self._context = ssl.create_default_context(cafile=str(self.ca))
        self._etcd = self._process(
            "etcd",
            program("etcd"),
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
        self._api = self._process(
            "kube-apiserver",
            program("kube"),
            "kube-apiserver",
            *(f"--etcd-servers={store}", f"--secure-port={self.url.rpartition(':')[2]}", f"--bind-address={HOST}"),
            *(f"--advertise-address={HOST}", f"--cert-dir={folder}"),
            *(f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}"),
            *(f"--client-ca-file={self.ca}", f"--token-auth-file={known}", "--authorization-mode=RBAC"),
            *(
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={accounts.certificate}",
            ),
            *(f"--service-account-signing-key-file={accounts.key}", "--service-cluster-ip-range=10.96.0.0/16"),
            "--endpoint-reconciler-type=none",
            ready=lambda: self.find("/readyz") is not None,
        )

    def __enter__(self) -> Self:
        try:
            self._etcd.start(READY_S)
            self._api.start(READY_S)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """The API server first."""
        self._api.stop()
        self._etcd.stop()

    def ask(self, path: str, body: object = None, *, user: str = ADMIN, method: str = "") -> Any:
        """The answer of the API; with a body, what it has created. Raises `HTTPError`."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self.tokens[user].read_text()}",
            "Content-Type": "application/json",
        }
        asked = urllib.request.Request(self.url + path, data, headers, method=method or ("POST" if data else "GET"))
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

    def apply(self, manifest: dict[str, Any]) -> None:
        """Create one object of a manifest in the namespace `default`."""
        plural = {"ServiceAccount": "serviceaccounts", "Role": "roles", "RoleBinding": "rolebindings"}[manifest["kind"]]
        version = manifest["apiVersion"]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        self.ask(f"{root}/namespaces/default/{plural}", manifest)

    def _process(self, name: str, binary: Path, *arguments: str, ready: Any) -> ManagedProcess:
        spec = ProcessSpec(
            name=name, argv=(str(binary), *arguments), log_path=self.folder / f"{name}.log", cwd=self.folder
        )
        return ManagedProcess(spec, ready=ready)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2.0):
            return True
    except OSError:
        return False
