"""What every test with pods has: a Kubernetes, an image, a broker and a ZooKeeper."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded import kafka, ports, zookeeper
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests import sasl_kafka
from tests.clusters import images, kubernetes_node
from tests.clusters.kubernetes_node import HOST, Cluster, own_network
from tests.clusters.programs import program
from tests.clusters.shop import PASSWORD
from tests.sasl_kafka import SaslKafka


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image for pods; it and the programs are built before the test has its own network, since builds may fetch packages."""
    if kubernetes_node.missing() or images.missing():
        pytest.skip(kubernetes_node.missing() or images.missing())
    for name in ("kube", "etcd"):
        program(name)
    return images.kubernetes_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def network(archive: Path) -> Iterator[None]:
    """Every server of this test listens where pods reach it."""
    with pytest.MonkeyPatch.context() as patched, own_network():
        for module in (ports, kafka, zookeeper, sasl_kafka):
            patched.setattr(module, "HOST", HOST)
        yield


@pytest.fixture(scope="module")
def cluster(network: None, archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kubernetes"), images.PAUSE) as started:
        started.import_images(archive)
        started.kubectl("apply", "--filename", str(images.MANIFESTS / "cluster-mode.yaml"))
        yield started


@pytest.fixture(scope="module")
def broker(network: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslKafka]:
    with SaslKafka(tmp_path_factory.mktemp("kafka"), users={"alice": PASSWORD}) as started:
        yield started


@pytest.fixture(scope="module")
def keeper(network: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started
