"""Pages that show their head before the content is read."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from coordinator_ui.data import audits

from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.service.coordinator import Coordinator
from tests.fakes.cluster import Cluster
from tests.unit.plugins.pages_site import a_hand_off, pages_of, stable, text_of

PAGES = (
    "/",
    "/clusters/shop/topics/orders",
    "/clusters/shop/audit",
    "/clusters/shop/ask/drain",
    "/rebalances",
    "/actions",
    "/runs/rebalance/run%201",
)
WAITS = "Being read."


def changing(html: str) -> str:
    """The page without its times."""
    return re.sub(r"\d\d:\d\d:\d\d(\.\d+)?|[\d.]+ s ago", "", html)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_in_two_parts_is_the_page_in_one_part_below_a_sentence(
    shop: Cluster, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "BETWEEN_S", 0.0)
    stable(shop, {0: "a", 1: "a", 2: "b", 3: "b"})
    a_hand_off(shop)
    whole = pages_of(shop).get(path)
    in_two = pages_of(shop, shell_after_s=0.0).get(path)
    assert (whole.status_code, in_two.status_code) == (200, 200)
    head, _, content = in_two.text.partition('<div class="waiting"')
    assert WAITS in content
    content = content.partition("</div>\n")[2]
    assert WAITS not in whole.text
    assert changing(head + content).split() == changing(whole.text).split()
    assert in_two.headers["content-security-policy"] == whole.headers["content-security-policy"]
    assert in_two.headers["cache-control"] == "no-store"


def test_the_head_is_sent_before_the_content_is_read(shop: Cluster) -> None:
    free, seen = threading.Event(), list[bytes]()

    @contextmanager
    def patient() -> Iterator[Coordinator]:
        assert free.wait(30)
        yield shop.coordinator

    client = pages_of(lambda name: (name, patient), shell_after_s=0.0)
    app = client.app

    async def take(message: dict[str, object]) -> None:
        if message["type"] == "http.response.body":
            seen.append(bytes(message["body"]))  # type: ignore[arg-type]
            free.set()  # the reading can end only after the head

    asked = iter([{"type": "http.request"}])

    async def asks() -> dict[str, object]:
        return next(asked, None) or await asyncio.Event().wait()  # type: ignore[return-value]  # the viewer stays

    path = "/clusters/shop/topics/orders"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "root_path": "",
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(app(scope, asks, take))  # type: ignore[arg-type]
    head, *rest = (part.decode() for part in seen if part)
    assert "<title>orders</title>" in head
    assert WAITS in head
    assert "Topic orders" in text_of("".join(rest))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/clusters/shop/topics/nothing", "nothing"),
        ("/", "KPC-041"),
    ],
)
def test_an_error_after_the_head_becomes_the_content(shop: Cluster, path: str, says: str) -> None:
    def down(name: str) -> tuple[str, Callable[[], AbstractContextManager[Coordinator]]]:
        def opener() -> AbstractContextManager[Coordinator]:
            raise StoreUnavailable("ZooKeeper at zk:2181 does not answer within 4 s; check that it runs")

        return name, opener

    site = shop if says == "nothing" else down
    in_two = pages_of(site, shell_after_s=0.0).get(path)
    alone = pages_of(site).get(path)
    assert says in text_of(alone.text)
    assert (in_two.status_code, alone.status_code >= 400) == (200, True)
    assert in_two.text.count("<main>") == in_two.text.count("</main>") == 1
    assert alone.text.partition("<main>")[2] in in_two.text
