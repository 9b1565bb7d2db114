"""A broker with a second listener that asks for a log-in."""

from collections.abc import Mapping
from pathlib import Path

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import HOST, free_port, listening

LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SaslKafka(EmbeddedKafka):
    """`users` (name → password) log in by SASL_PLAINTEXT with the mechanism PLAIN at `sasl_bootstrap_servers`."""

    def __init__(self, data_dir: Path, *, users: Mapping[str, str], settings: Mapping[str, str] | None = None) -> None:
        self.sasl_port = free_port()
        self._users = dict(users)
        super().__init__(data_dir, settings=settings)

    @property
    def sasl_bootstrap_servers(self) -> str:
        return f"{HOST}:{self.sasl_port}"

    def login(self, password: str) -> dict[str, str]:
        """Settings of librdkafka with which `alice` logs in, by a right password or a wrong one."""
        return {
            "bootstrap.servers": self.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
        }

    def _answers(self) -> bool:
        return super()._answers() and listening(self.sasl_port)

    def _listeners(self) -> dict[str, str]:
        found, own = super()._listeners(), f"SASL://{HOST}:{self.sasl_port}"
        logins = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
        return {
            **found,
            "listeners": f"{found['listeners']},{own}",
            "advertised.listeners": f"{found['advertised.listeners']},{own}",
            "listener.security.protocol.map": f"{found['listener.security.protocol.map']},SASL:SASL_PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": f"{LOGIN_MODULE} required {logins};",
        }
