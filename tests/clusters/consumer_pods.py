"""Consumers as pods of the StatefulSet of `docs/kubernetes/consumers.yaml`, and what their sinks have."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.model import IdClaim, Move, Record
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.demo.ownership import holdings
from tests.clusters import images
from tests.clusters.kubernetes_node import Cluster
from tests.clusters.shop import Watched, settings_secret
from tests.integration.real_site import Managed
from tests.sasl_kafka import SaslKafka

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
ROWS = "/rows"


class ConsumerPods(Watched):
    """The StatefulSet has the name of the site's cluster, so that no other test has a consumer of these ids."""

    def __init__(self, cluster: Cluster, broker: SaslKafka, managed: Managed, folder: Path) -> None:
        self.cluster, self.managed = cluster, managed
        self.name = managed.site.cluster
        self.rows = folder / "rows"
        self.rows.mkdir()
        self.rows.chmod(0o777)  # pods run as another user
        self.killed: set[tuple[str, int]] = set()
        settings_secret(cluster, broker, managed)
        self.file = folder / "consumers.yaml"
        self.file.write_text(yaml.safe_dump_all(self._manifest()))

    def _manifest(self) -> list[dict[str, Any]]:
        """The documented one, with consumers without Spark, this site's names, a sink in a folder of the node, and less CPU asked for."""
        text = (images.MANIFESTS / "consumers.yaml").read_text()
        text = text.replace("coordinator-main", f"coordinator-{self.name}").replace("billing", self.name)
        found = list(yaml.safe_load_all(text))
        (stateful,) = (one for one in found if one["kind"] == "StatefulSet")
        pod = stateful["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        words = container["args"]
        own = words[words.index("--consumer") : words.index("--pipeline")]
        container["args"] = ["python", "-m", "spark_apps.plain", *own, "--sink", f"{ROWS}/$(POD_NAME).jsonl"]
        container["resources"]["requests"]["cpu"] = "100m"
        container["volumeMounts"] = [{"name": "rows", "mountPath": ROWS}]
        pod["volumes"] = [{"name": "rows", "hostPath": {"path": str(self.rows)}}]
        return found

    # What a person types ---------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Create everything in the manifest."""
        self.cluster.kubectl("apply", "--filename", str(self.file))

    def scale(self, count: int) -> None:
        """As KEDA and a horizontal pod autoscaler do it too."""
        self.cluster.kubectl("scale", f"statefulset/{self.name}", f"--replicas={count}")

    def delete(self, consumer: str) -> None:
        """Return when the pod has ended."""
        self.cluster.kubectl("delete", "pod", consumer)

    def rollout(self) -> None:
        """Replace all pods, and wait until the last one is ready."""
        self.cluster.kubectl("rollout", "restart", f"statefulset/{self.name}")
        self.wait_for(self._rolled_out, "all pods are of the new revision and ready")

    def _rolled_out(self) -> bool:
        found = self.cluster.ask(f"{SETS}/{self.name}")
        status, wanted = found["status"], found["spec"]["replicas"]
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        new = status.get("updatedReplicas", 0) == status.get("readyReplicas", 0) == status["replicas"] == wanted
        return seen and new and bool(status["currentRevision"] == status["updateRevision"])

    # What is there ---------------------------------------------------------------------------------------------------

    def names(self, count: int) -> list[str]:
        """The ids of the first so many consumers: the names of their pods."""
        return [f"{self.name}-{number}" for number in range(count)]

    def pod(self, consumer: str) -> dict[str, Any] | None:
        """As the API has it; `None` = there is none."""
        found: dict[str, Any] | None = self.cluster.find(f"{PODS}/{consumer}")
        return found

    def uid(self, consumer: str) -> str:
        """A pod that comes back has another one."""
        found = self.pod(consumer)
        return str(found["metadata"]["uid"]) if found else ""

    def restarts(self, consumer: str) -> int:
        """How often the kubelet has started its container again."""
        found = self.pod(consumer)
        assert found is not None
        return int(found["status"]["containerStatuses"][0]["restartCount"])

    def processes(self, consumer: str) -> list[psutil.Process]:
        """All of its container, the first one too."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if "--consumer" in line and consumer in line:
                found.append(process)
        return found

    def kill(self, consumer: str) -> None:
        """kill -9 of its container's processes."""
        self.killed.add((consumer, self.incarnation(consumer)))
        for process in self.processes(consumer):
            process.kill()

    def claim(self, consumer: str) -> IdClaim:
        """What ZooKeeper keeps of the id."""
        path = self.managed.site.paths.id(consumer)
        return decode_claim(path, self.managed.site.zk.get(path).data, consumer, 0)

    def incarnation(self, consumer: str) -> int:
        """The one to which its partitions are granted; 0 = it has none."""
        return self.managed.node().incarnations.get(consumer, 0)

    def back(self, consumer: str, former: int, owners: Sequence[str]) -> float:
        """Wait until the next incarnation of this id has its partitions; the seconds."""
        return self.wait_for(
            lambda: self.incarnation(consumer) not in (0, former) and self.managed._is_stable(owners),
            f"{consumer} is back",
        )

    def said(self) -> str:
        """Pods, events and logs, for a test that fails."""
        words = [self.cluster.kubectl("get", "pods,events", "--output=wide")]
        found = self.cluster.ask(f"{PODS}?labelSelector=app%3D{self.name}")["items"]
        started = [one["metadata"]["name"] for one in found if one["status"]["phase"] != "Pending"]
        words += [self.cluster.kubectl("logs", "--tail=40", name) for name in started]
        words += [f"{one.at:.1f} {one.source} {one.target}: {one.cause}" for one in self.managed.history()]
        return "\n".join(words)[-16_000:]

    # What has happened -----------------------------------------------------------------------------------------------

    def since(self, count: int) -> tuple[Record, ...]:
        """The transitions after the first so many."""
        return self.managed.history()[count:]

    def moved(self, records: Sequence[Record]) -> list[Move]:
        """The partitions that another consumer was to have."""
        return [move for record in records for move in record.moves if move.giver != move.taker]

    def follow(self) -> None:
        """Take over what the sinks have into the ledger."""
        self.managed.ledger.rows = self._written()

    def _written(self) -> list[Row]:
        """A line has the epoch of its ownership, and the history says to which incarnation that was granted."""
        held = holdings(self.managed.history(), list(self.managed.ledger.releases.values()))
        granted = {(one.partition, one.consumer, one.epoch): one.incarnation for one in held}
        found = []
        for file in sorted(self.rows.glob("*.jsonl")):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("}\n"):  # a killed process may leave the beginning of a line
                    one = json.loads(line)
                    incarnation = granted.get((one["partition"], one["consumer"], one["epoch"]), 0)
                    where = (one["consumer"], incarnation, one["epoch"], one["partition"], one["offset"])
                    found.append(Row(*where, 0, 0.0, one["processed_at"]))
        return found

    def judge(self, sent: int) -> None:
        """Every record that was produced is in the sinks, by its owner, and twice only after a kill."""

        def everything() -> bool:
            self.follow()
            partitions = range(self.managed.site.partitions)
            return all(set(self.managed.ledger.offsets(p)) == set(range(sent)) for p in partitions)

        self.wait_for(everything, f"all {sent} records of each partition are in the sinks")
        self.managed.see_releases()
        self.follow()
        self.managed.judge(sent, frozenset(self.killed))

    def end(self) -> None:
        """Delete everything of the manifest, and wait until no process is left."""
        self.cluster.kubectl("delete", "--filename", str(self.file), "--ignore-not-found")
        self.wait_for(lambda: not any(map(self.processes, self.names(9))), "no consumer is left")
