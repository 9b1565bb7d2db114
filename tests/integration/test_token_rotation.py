"""The documented change of the status token, typed in as documented, under consumers that run over TLS.

A file of tokens that is empty, half written or open to others is not used: the former tokens stay.
"""

import os
import ssl
import subprocess
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from coordinator_tasks.core.model import ConsumerStatus
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.wiring import open_coordinator
from spark_apps.agent.interface import status_server
from tests.certificates import Authority
from tests.integration.agent_site import Site, Traffic
from tests.integration.real_site import Managed

pytestmark = pytest.mark.integration
PAGE = Path(__file__).resolve().parents[2] / "docs" / "secrets.md"
FORMER = "former-token"


def documented_steps() -> list[str]:
    """The commands of the page, in their order; the first one makes the token."""
    text = PAGE.read_text(encoding="utf-8").split("\n## Change the status token\n", 1)[1].split("\n##", 1)[0]
    return [block.strip() for block in text.split("```")[1::2]]


def type_in(command: str, tokens: Path, new: str) -> None:
    environment = {**os.environ, "TOKENS": str(tokens), "NEW": new}
    subprocess.run(["bash", "-ec", command], env=environment, check=True, timeout=30)


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often the consumers' interfaces have answered with each code."""
    counted: Counter[int] = Counter()
    send = status_server._Handler.send

    def counting(self: status_server._Handler, code: HTTPStatus, body: bytes) -> None:
        counted[int(code)] += 1
        send(self, code, body)

    monkeypatch.setattr(status_server._Handler, "send", counting)
    return counted


def all_answer(c: Coordinator) -> bool:
    answers = c.statuses.ask(list(c.discovery.members().values()))
    return len(answers) > 1 and all(isinstance(one, ConsumerStatus) for one in answers.values())


def test_the_token_is_changed_as_documented_and_nothing_pauses_or_is_refused(
    site: Site, codes: Counter[int], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority", "site")
    pair = authority.sign("consumers")
    hosts = [tmp_path / name for name in ("consumers", "coordinator")]
    for tokens in hosts:
        tokens.touch(mode=0o600)
        tokens.write_text(FORMER + "\n")
    coordinator = replace(site.settings, status_token_file=str(hosts[1]), status_ca=str(authority.ca))
    site.settings = replace(
        site.settings,
        status_token_file=str(hosts[0]),
        status_certificate=str(pair.certificate),
        status_key=str(pair.key),
        status_ca=str(authority.ca),
    )
    make, *steps = documented_steps()
    new = subprocess.run(
        ["bash", "-ec", f'{make}; printf "%s" "$NEW"'], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    managed = Managed(site)
    try:
        managed.join("a")
        managed.join("b")
        with managed.looping(settings=coordinator), open_coordinator(coordinator) as c:
            owners = managed.stable("ab")
            assert {one.address.partition(":")[0] for one in c.discovery.members().values()} == {"https"}
            traffic, before = Traffic(site), (managed.node(), managed.history())
            for step in steps:
                for tokens in hosts:
                    type_in(step, tokens, new)
                    assert all_answer(c)
                    managed.ledger.grown(range(site.partitions), "all partitions continue")
            assert (managed.node(), managed.history()) == before
            assert dict(managed.node().assignments) == owners
            managed.join("c")  # and hand-offs are confirmed with the new token
            managed.stable("abc")
            assert set(codes) == {HTTPStatus.OK}
            managed.consumed(traffic.close())
            assert [one.reports for one in managed.consumers.values()] == [()] * 3
            address = c.discovery.members()["a"].address
        assert [tokens.read_text() for tokens in hosts] == [f"{new}\n"] * 2
        answers = [asked(address, token, authority) for token in (FORMER, new)]
        assert answers == [HTTPStatus.UNAUTHORIZED, HTTPStatus.OK]
    finally:
        managed.close()


def asked(address: str, token: str, authority: Authority) -> int:
    headers, trusted = {"Authorization": f"Bearer {token}"}, ssl.create_default_context(cafile=authority.ca)
    return httpx.get(f"{address}/v1/status", headers=headers, verify=trusted, trust_env=False).status_code
