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
        path = request.url.raw_path.decode().removesuffix("?deleted=true")
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


def named(kind: str, name: str, **other: object) -> dict[str, object]:
    return {"type": kind, "name": name, **other}


def record(name: str, *types: object, **other: object) -> dict[str, object]:
    fields = [{"name": f"f{place}", "type": one} for place, one in enumerate(types)]
    return named("record", name, fields=fields, **other)


KIND = named("enum", "Kind", symbols=["A"], namespace="shop")
ADDRESS = record("shop.Address", "string", "Kind", ["null", "Address"])
USES = record("Order", ["null", "Address"], {"type": "array", "items": "Address"}, "shop.Kind", namespace="shop")


def test_the_types_of_references_are_in_the_text_once_and_those_of_their_references_too() -> None:
    seen: list[httpx.Request] = []
    answers = {
        "/subjects/orders/versions": [1],
        "/subjects/orders/versions/1": {
            "id": 7,
            "schema": json.dumps(USES),
            "references": [{"name": "shop.Address", "subject": "a/b", "version": 3}],
        },
        "/subjects/a%2Fb/versions/3": {
            "id": 5,
            "schema": json.dumps(ADDRESS),
            "references": [{"name": "shop.Kind", "subject": "kind", "version": 1}],
        },
        "/subjects/kind/versions/1": {"id": 4, "schema": json.dumps(KIND)},
    }
    whole = json.loads(subject_of(SETTINGS, "orders", client(answers, seen)).latest)
    first, second, third = (one["type"] for one in whole["fields"])
    address = record("Address", "string", KIND, ["null", "shop.Address"], namespace="shop")
    assert first == ["null", address]
    assert (second, third) == ({"type": "array", "items": "shop.Address"}, "shop.Kind")


@pytest.mark.parametrize(
    ("live", "columns"), [([1], FIRST), (None, SECOND)], ids=["one version", "all versions, with the subject"]
)
def test_a_soft_deleted_version_decodes_its_records_and_gives_no_columns(live: list[int] | None, columns: str) -> None:
    place = "/subjects/orders/versions"
    answers = {f"{place}/1": {"id": 7, "schema": FIRST}, f"{place}/2": {"id": 4, "schema": SECOND}}

    def answer(request: httpx.Request) -> httpx.Response:
        path, deleted = request.url.path, request.url.params.get("deleted") == "true"
        found = ([1, 2] if deleted else live) if path == place else answers[path] if deleted else None
        return httpx.Response(404) if found is None else httpx.Response(200, json=found)

    registry = httpx.Client(transport=httpx.MockTransport(answer))
    assert subject_of(SETTINGS, "orders", registry) == Subject({7: FIRST, 4: SECOND}, columns)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ({"schemaType": "PROTOBUF", "schema": "syntax"}, "a schema of PROTOBUF"),
        ({"schema": FIRST, "references": [{"subject": "gone", "version": 1}]}, "404 Not Found"),
        ({"schema": FIRST, "references": [{"subject": "endless", "version": 1}]}, "more than 1,000 versions"),
        ({"schema": FIRST, "references": [{"subject": "other", "version": 1}]}, "define order in two ways"),
        ({"schema": FIRST, "references": ["other"]}, "TypeError"),
    ],
)
def test_a_version_that_cannot_be_used_is_refused_with_its_reason(version: dict[str, object], says: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        _, _, subject, _, *number = request.url.path.split("/")
        at = int(number[0]) if number else 0
        found: dict[str, object] = {
            "endless": {"schema": FIRST, "references": [{"subject": "endless", "version": at + 1}]},
            "other": {"schema": FIRST, "references": [{"subject": "another", "version": 1}]},
            "another": {"schema": SECOND},
            "orders": {"id": 1, **version},
        }
        return httpx.Response(200, json=found[subject] if number else [1]) if subject in found else httpx.Response(404)

    registry = httpx.Client(transport=httpx.MockTransport(answer))
    with pytest.raises(Refused, match=f"did not give the versions of orders .*{says}"):
        subject_of(SETTINGS, "orders", registry)


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
