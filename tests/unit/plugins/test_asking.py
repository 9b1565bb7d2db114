"""The forms of actions: fields, filled in from an address, and the values on offer."""

import re
import threading
import time

import pytest
from coordinator_plugin.forms import FORMS
from coordinator_ui.pages import form_fields, routes
from coordinator_ui.pages.form_fields import MOST_VALUE

from coordinator_tasks.core.model import Fleet, FleetVersion
from coordinator_tasks.core.names import spelled
from coordinator_tasks.service.nodes import fleet
from tests.fakes.cluster import Cluster
from tests.unit.plugins.pages_site import NASTY, pages_of, stable


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_its_fields(shop: Cluster, name: str) -> None:
    page = pages_of(shop).get(f"/clusters/shop/ask/{name}").text
    for one in FORMS[name].parameters:
        assert (f'name="{one.name}"' in page) == (one.form is not None)
    assert ('id="field-dry_run" type="checkbox" checked' in page) == (not FORMS[name].reads)
    assert f"<h1>{spelled(name)}</h1>" in page
    assert f"a run of the DAG {spelled(name)} in your name" in page
    assert f'data-dag="{name}"' in page


@pytest.mark.parametrize(
    ("action", "name", "value"),
    [
        ("scale", "count", ""),
        ("set_growth", "most", ""),
        ("upgrade", "hold_minutes", "5.0"),
        ("expect_restart", "within", "10"),
    ],
)
def test_a_number_that_is_not_filled_in_is_not_taken_for_0(shop: Cluster, action: str, name: str, value: str) -> None:
    page = pages_of(shop).get(f"/clusters/shop/ask/{action}").text
    found = re.search(f'<input id="field-{name}"[^>]*>', page)
    assert found is not None
    assert f'value="{value}"' in found[0]
    assert found[0].endswith(" required>")
    label = re.search(f'<label for="field-{name}">(.*?)</label>', page)
    assert label is not None
    assert ("(needed)" in label[1]) == (not value)


def test_a_form_is_filled_in_from_the_row_and_does_nothing(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    before = shop.zk.children(shop.paths.directives)
    page = (
        pages_of(shop)
        .get("/clusters/shop/ask/pin", params={"topic": "orders", "partitions": "0,1", "consumer": NASTY, "other": "x"})
        .text
    )
    assert 'value="orders"' in page
    assert ">\n0\n1</textarea>" in page
    assert NASTY not in page
    assert shop.zk.children(shop.paths.directives) == before
    assert pages_of(shop).get("/clusters/shop/ask/nothing").status_code == 404


def test_a_list_that_is_nested_too_deeply_is_shown_as_its_text(shop: Cluster) -> None:
    deep = "[" * MOST_VALUE
    answer = pages_of(shop).get("/clusters/shop/ask/pin", params={"partitions": deep})
    assert answer.status_code == 200
    assert f">\n{deep}</textarea>" in answer.text


def offers(page: str, name: str) -> list[tuple[str, str]]:
    """The entries of a field's list, with their descriptions."""
    found = re.search(f'<datalist id="list-{name}">(.*?)</datalist>', page)
    assert found is not None
    assert f'list="list-{name}"' in page, "a field has it"
    return re.findall(r'<option value="([^"]*)"(?: label="([^"]*)")?>', found[1])


def test_what_there_is_can_be_chosen_and_anything_else_be_typed(shop: Cluster) -> None:
    c = shop.coordinator
    fleet.set_fleet(
        c, Fleet("billing", "app.py", ("a", "c"), code="2", name="1.5", versions={"1.4": FleetVersion("x")})
    )
    fleet.set_fleet(c, Fleet("shop", "app.py", ("d",), name="1.5"))
    client = pages_of(shop)

    def of(action: str, name: str) -> list[tuple[str, str]]:
        return offers(client.get(f"/clusters/shop/ask/{action}").text, name)

    assert of("pin", "topic") == [("orders", "")]
    known = [("a", ""), ("b", ""), ("c", "c, not registered"), ("d", "d, not registered")]
    assert of("drain", "consumer") == of("set_fleet", "consumers") == of("preview", "leave") == known
    assert of("scale", "app") == of("undrain", "app") == [("billing", ""), ("shop", "")]
    assert of("upgrade", "version") == [("1.4", "1.4, of billing"), ("1.5", "1.5, of billing, shop")]
    assert ("range", "") in of("set_strategy", "strategy")
    assert ("earliest", "") in of("reset_offsets", "to")
    assert of("roll_back", "rebalance") == [], "those of the topic are fetched when it is chosen"
    assert "<datalist" not in client.get("/clusters/shop/ask/add_topic").text.split('name="group_id"')[0]
    form = client.get("/clusters/shop/ask/drain", params={"consumer": "long-gone"}).text
    assert 'name="consumer" data-kind="string" value="long-gone"' in form


def test_a_list_is_bounded_and_what_others_wrote_is_escaped(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tuple(f"z-{number:05}" for number in range(form_fields.MOST_OFFERS))
    wide = Fleet("billing", "app.py", ids, name=NASTY)
    monkeypatch.setattr(fleet, "fleets", lambda _: [wide])
    page = pages_of(shop).get("/clusters/shop/ask/drain").text
    assert [one for one, _ in offers(page, "consumer")] == ["a", "b", *ids[: form_fields.MOST_OFFERS - 2]]
    assert "The list has the first 1,000 names; type any of the 2 others." in page
    page = pages_of(shop).get("/clusters/shop/ask/upgrade").text
    assert NASTY not in page
    assert offers(page, "version")[0][0] == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_a_form_is_there_without_lists_while_nothing_can_be_read(shop: Cluster) -> None:
    shop.server.stop()
    page = pages_of(shop).get("/clusters/shop/ask/drain", params={"consumer": "a"})
    assert page.status_code == 200
    assert 'value="a"' in page.text
    assert "<datalist" not in page.text


def test_a_form_does_not_wait_long_for_its_lists(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "LISTS_LIMIT_S", 0.05)
    released = threading.Event()
    monkeypatch.setattr(routes, "choices", lambda _: released.wait(20.0))
    began = time.monotonic()
    page = pages_of(shop).get("/clusters/shop/ask/drain")
    assert time.monotonic() - began < 10.0
    released.set()
    assert page.status_code == 200
    assert "<datalist" not in page.text
