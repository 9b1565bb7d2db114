"""What is asked of a schema registry, and what is made of wrong answers."""

import itertools
import json

import httpx
import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.pipelines import schema_registry
from spark_apps.pipelines.schema_registry import Subject, subject_of

FIRST = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]})
SECOND = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "string", "default": ""}]})
SETTINGS = {"schemaRegistry": "http://registry:8081/", "schemaRegistryUser": "reader", "schemaRegistryPassword": "p"}


def client(answers: dict[str, object], seen: list[httpx.Request]) -> httpx.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        path = request.url.raw_path.decode()
        return httpx.Response(200, json=answers[path]) if path in answers else httpx.Response(404)

    return httpx.Client(transport=httpx.MockTransport(answer))


def test_every_version_is_read_and_the_latest_gives_the_columns() -> None:
    seen: list[httpx.Request] = []
    place = "/subjects/a%2Forders-value/versions"
    answers = {place: [2, 1], f"{place}/1": {"id": 7, "schema": FIRST}, f"{place}/2": {"id": 4, "schema": SECOND}}
    found = subject_of(SETTINGS, "a/orders-value", client(answers, seen))
    assert found == Subject({7: FIRST, 4: SECOND}, SECOND)
    assert {request.headers["authorization"] for request in seen} == {httpx.BasicAuth("reader", "p")._auth_header}
    with pytest.raises(Refused):
        subject_of({"schemaRegistry": "http://registry:8081"}, "orders", client({}, seen))
    assert "authorization" not in seen[-1].headers


@pytest.mark.parametrize("answer", [[], {"error_code": 40401}, [3], "text", None])
def test_a_registry_that_gives_no_versions_is_refused_with_its_address(answer: object) -> None:
    with pytest.raises(
        Refused, match="the schema registry at http://registry:8081 did not give the versions of orders"
    ):
        subject_of(SETTINGS, "orders", client({"/subjects/orders/versions": answer}, []))


@pytest.mark.parametrize("schema", ["{", "[" * 2_000], ids=["cut off", "nested too deeply"])
def test_a_schema_that_is_no_json_is_refused(schema: str) -> None:
    place = "/subjects/orders/versions"
    with pytest.raises(Refused, match="did not give the versions"):
        subject_of(SETTINGS, "orders", client({place: [1], f"{place}/1": {"id": 1, "schema": schema}}, []))


@pytest.mark.parametrize("time_out_s", [10.0, -1.0], ids=["too large", "too slow"])
def test_an_answer_without_an_end_is_refused(time_out_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "TIMEOUT_S", time_out_s)
    endless = httpx.MockTransport(lambda _: httpx.Response(200, content=itertools.repeat(b" " * 65_536)))
    with pytest.raises(Refused, match=r"its answer has more than 4,194,304 bytes, or takes more than -?\d+ s"):
        subject_of(SETTINGS, "orders", httpx.Client(transport=endless))


def test_a_login_in_the_address_is_used_and_never_shown() -> None:
    seen: list[httpx.Request] = []
    with pytest.raises(Refused, match="the schema registry at http://registry:8081 did not give") as raised:
        subject_of({"schemaRegistry": "http://me:s3cret@registry:8081"}, "orders", client({}, seen))
    assert "s3cret" not in str(raised.value)
    assert seen[0].headers["authorization"] == httpx.BasicAuth("me", "s3cret")._auth_header


@pytest.mark.parametrize("address", ["http://me:s3/cret@registry:8081", "me:s3cret@registry:8081"])
def test_an_address_that_is_none_is_refused_without_being_shown(address: str) -> None:
    with pytest.raises(Refused, match="the setting schemaRegistry is no address; give http://host:8081") as raised:
        subject_of({"schemaRegistry": address}, "orders", client({}, []))
    assert "s3" not in str(raised.value)


def test_without_an_address_it_says_which_setting_is_missing() -> None:
    with pytest.raises(Refused, match="the setting schemaRegistry is missing"):
        subject_of({}, "orders")
