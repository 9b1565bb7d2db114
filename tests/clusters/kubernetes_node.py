"""A Kubernetes cluster of one node on which pods run: controllers, scheduler, kubelet and Debian's containerd.

All of it is in a network of its own, which the test enters as well (`own_network`), so that it reaches pods and they reach its servers. There
is no kube-proxy: addresses of services lead nowhere. Names of headless services are answered by `cluster_dns`.
"""

import ctypes
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.clusters import cluster_dns
from tests.clusters.docker_engine import remove_cgroups
from tests.clusters.kubernetes import ADMIN, ApiServer
from tests.clusters.programs import program

NEEDED = ("containerd", "ctr", "runc", "unshare", "ip")
PLUGINS = Path("/usr/lib/cni")
ADVICE = "apt-get install containerd runc containernetworking-plugins iproute2"
CLONE_NEWNET = 0x40000000
HOST = "10.99.0.1"
"""The node, the API server, and the servers of the test."""
PODS = "10.88.0.0/16"
NODE = "node1"
CGROUP = "kubepods"
IMPORT_S = 300.0
KERNEL_SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
"""What a kubelet sets on its host: it gets files of its own instead."""
CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "/run/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""
KUBELET = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{folder}/containerd.sock
clusterDNS: ["{host}"]
clusterDomain: cluster.local
resolvConf: {folder}/resolv.conf
evictionHard: {{memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}}
enforceNodeAllocatable: []
oomScoreAdj: 0
podLogsDir: {folder}/pod-logs
volumePluginDir: {folder}/plugins
imageGCHighThresholdPercent: 100
syncFrequency: 10s
"""
NODE_SCRIPT = r"""
mount --make-rshared /
for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/netns
{settings}
containerd --config {folder}/containerd.toml > {folder}/containerd.log 2>&1 &
until ctr --address {folder}/containerd.sock version > /dev/null 2>&1; do sleep 0.1; done
exec {kube} kubelet --config={folder}/kubelet.yaml --kubeconfig={kubeconfig} --root-dir={folder}/kubelet --hostname-override={node} \
    --node-ip={host} --cert-dir={folder}/kubelet-pki
"""


def missing() -> str:
    """What this machine lacks, as a sentence; empty if pods can run."""
    lacking = [name for name in NEEDED if not shutil.which(name)] + [
        str(one) for one in (PLUGINS / "bridge",) if not one.exists()
    ]
    return f"there is no {', '.join(lacking)} here: {ADVICE}" if lacking else ""


@contextmanager
def own_network() -> Iterator[None]:
    """This thread, and whatever it starts, has a network without any other machine; `HOST` is its address there."""
    libc, resolver = ctypes.CDLL(None, use_errno=True), Path("/etc/resolv.conf").read_text()
    with Path("/proc/thread-self/ns/net").open() as before:
        if libc.unshare(CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "this process may not make a network of its own")
        try:
            for words in (
                "link set lo up",
                "link add node0 type bridge",
                f"addr add {HOST}/24 dev node0",
                "link set node0 up",
                # A bridge without a port has no carrier, and the kubelet wants a default route.
                "link add nodev type veth peer name nodep",
                "link set nodep master node0 up",
                "link set nodev up",
                f"route add default via {HOST}",
                # Nobody answers there. A broker looks up the name of each client that logs in, and would wait for the time limit.
                *(
                    f"route add unreachable {address}"
                    for address in re.findall(r"(?m)^nameserver (\d[\d.]*)", resolver)
                ),
            ):
                subprocess.run(["ip", *words.split()], check=True, capture_output=True)
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            yield
        finally:
            if libc.setns(before.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "this process cannot leave its network")


class Cluster(ApiServer):
    """Within `own_network`; `pause` is the image of a pod's first container, which has to be imported too."""

    def __init__(self, folder: Path, pause: str) -> None:
        super().__init__(folder, HOST)
        kube, kubeconfig = str(program("kube")), f"--kubeconfig={self.kubeconfig}"
        self._write_files(pause)
        self.add(
            "controller-manager",
            *(kube, "kube-controller-manager", kubeconfig, f"--root-ca-file={self.ca}", "--leader-elect=false"),
            *("--authorization-always-allow-paths=/healthz", f"--service-account-private-key-file={self.accounts.key}"),
            ready=lambda: self.find("/api/v1/namespaces/default/serviceaccounts/default") is not None,
        )
        self.add("scheduler", kube, "kube-scheduler", kubeconfig, "--leader-elect=false", ready=lambda: True)
        self.add(
            "cluster-dns",
            *(sys.executable, str(Path(cluster_dns.__file__)), HOST, self.url, str(self.ca), str(self.tokens[ADMIN])),
            ready=lambda: True,
        )
        own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        self.add(NODE, *own, "sh", "-c", self._node_script(kube), ready=self._node_ready)

    def stop(self) -> None:
        super().stop()
        remove_cgroups(CGROUP)

    def import_images(self, archive: Path) -> None:
        """Take over what `docker save` has written."""
        command = [
            "ctr",
            "--address",
            str(self.folder / "containerd.sock"),
            "--namespace",
            "k8s.io",
            "images",
            "import",
        ]
        subprocess.run([*command, str(archive)], check=True, capture_output=True, timeout=IMPORT_S)

    def _node_ready(self) -> bool:
        node = self.find(f"/api/v1/nodes/{NODE}")
        conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]} if node else {}
        return conditions.get("Ready") == "True"

    def _node_script(self, kube: str) -> str:
        settings = "\n".join(
            f"cp /proc/sys/{name} {self.folder}/{name.replace('/', '-')}; "
            f"mount --bind {self.folder}/{name.replace('/', '-')} /proc/sys/{name}"
            for name in KERNEL_SETTINGS
        )
        words = {"folder": self.folder, "kube": kube, "kubeconfig": self.kubeconfig, "node": NODE, "host": HOST}
        return NODE_SCRIPT.format(settings=settings, **{name: shlex.quote(str(value)) for name, value in words.items()})

    def _write_files(self, pause: str) -> None:
        words = {"folder": self.folder, "pause": pause, "plugins": PLUGINS, "host": HOST}
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(**words))
        (self.folder / "kubelet.yaml").write_text(KUBELET.format(**words))
        (self.folder / "resolv.conf").write_text(f"nameserver {HOST}\n")
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "pods0",
                    "isGateway": True,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": PODS}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                        "dataDir": str(self.folder / "addresses"),
                    },
                }
            ],
        }
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
