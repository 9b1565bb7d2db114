"""A real Kafka that asks for log-ins and rights: by SCRAM over TLS, or by client certificates."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from coordinator_tasks.core.protocol.kafka_rights import Resource, Right, Side
from tests.certificates import Authority
from tests.sasl_kafka import SaslKafka

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}
ADMIN = "admin"
"""May do everything."""
OPERATIONS = {"Describe": AclOperation.DESCRIBE, "Read": AclOperation.READ, "Write": AclOperation.WRITE}


def password(user: str) -> str:
    """Of a user that logs in by SCRAM."""
    return f"{user}-pw"


@dataclass(frozen=True, slots=True)
class Secure:
    """A broker that asks for rights; on its open listener everybody has all of them."""

    broker: SaslKafka
    folder: Path
    site: Authority
    certificates: bool

    def kafka(self, side: Side) -> dict[str, str]:
        """The Kafka settings of one side's account."""
        common = {
            "bootstrap.servers": self.broker.sasl_bootstrap_servers,
            "ssl.ca.location": str(self.site.ca),
            "log_level": "1",
        }
        if not self.certificates:
            login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": side.value, "sasl.password": password(side)}
            return {**common, "security.protocol": "SASL_SSL", **login}
        pair = self.site.sign(side.value)
        files = {"ssl.certificate.location": str(pair.certificate), "ssl.key.location": str(pair.key)}
        return {**common, "security.protocol": "SSL", **files}

    def principal(self, side: Side) -> str:
        return f"User:CN={side}" if self.certificates else f"User:{side}"

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": "1"})

    def binding(self, side: Side, right: Right, name: str) -> AclBinding:
        """The right of this side on the resource of this name."""
        prefixed = right.resource is Resource.TRANSACTIONAL_ID
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        who = (self.principal(side), "*", OPERATIONS[right.operation], AclPermissionType.ALLOW)
        return AclBinding(KINDS[right.resource], name, pattern, *who)


@contextmanager
def secure_kafka(folder: Path, site: Authority, *, certificates: bool = False) -> Iterator[Secure]:
    """One broker, with an account for each side."""
    listener = "listener.name.sasl."
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:{'SSL' if certificates else 'SASL_SSL'}",
        f"{listener}sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{listener}scram-sha-512.sasl.jaas.config": f"{MODULE} required;",
        f"{listener}ssl.client.auth": "required" if certificates else "none",
        f"{listener}ssl.keystore.type": "PEM",
        f"{listener}ssl.keystore.location": str(site.sign("broker").both),
        f"{listener}ssl.truststore.type": "PEM",
        f"{listener}ssl.truststore.location": str(site.ca),
    }
    with SaslKafka(folder / "kafka", users={"nobody": "x"}, settings=settings) as broker:
        made = Secure(broker, folder, site, certificates)
        users = [] if certificates else [ADMIN, *(side.value for side in Side)]
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upserts = [UserScramCredentialUpsertion(user, info, password(user).encode()) for user in users]
        admin = made.admin()
        for done in admin.alter_user_scram_credentials(upserts).values() if upserts else ():  # type: ignore[arg-type]
            done.result(30)
        yield made
