"""Names of headless services, answered from the endpoints in the API: `cluster_dns.py ADDRESS URL CA TOKEN_FILE`. All else has no address.

A process of its own without our packages: it answers while a pod starts, and starts at once.
"""

import json
import socket
import ssl
import struct
import sys
import urllib.request
from pathlib import Path

HEADER = struct.Struct(">HHHHHH")
ANSWERED, NO_SUCH_NAME = 0x8580, 0x8583
ADDRESS_RECORD = 1
NAME_OF_QUESTION = 0xC00C
TTL_S = 1


def addresses(service: str, namespace: str, api: tuple[str, ssl.SSLContext, str]) -> list[str]:
    """Of the pods behind it, also of those that are not ready: a driver's executors find it before it is."""
    url, context, token = api
    asked = urllib.request.Request(
        f"{url}/api/v1/namespaces/{namespace}/endpoints/{service}", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=5.0, context=context) as answer:
            found = json.load(answer)
    except OSError:
        return []
    subsets = found.get("subsets") or []
    parts = [one for subset in subsets for name in ("addresses", "notReadyAddresses") for one in subset.get(name) or []]
    return [one["ip"] for one in parts]


def answer(query: bytes, api: tuple[str, ssl.SSLContext, str]) -> bytes:
    """To one question of a resolver."""
    labels, at = [], HEADER.size
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += query[at] + 1
    question = query[HEADER.size : at + 5]
    (kind,) = struct.unpack(">H", query[at + 1 : at + 3])
    of_cluster = len(labels) >= 3 and labels[2] == "svc" and labels[3:] in ([], ["cluster", "local"])
    found = addresses(labels[0], labels[1], api) if of_cluster else []
    given = found if kind == ADDRESS_RECORD else []
    head = HEADER.pack(struct.unpack(">H", query[:2])[0], ANSWERED if found else NO_SUCH_NAME, 1, len(given), 0, 0)
    records = [
        struct.pack(">HHHIH", NAME_OF_QUESTION, ADDRESS_RECORD, 1, TTL_S, 4) + socket.inet_aton(one) for one in given
    ]
    return head + question + b"".join(records)


def main() -> None:
    address, url, ca, token_file = sys.argv[1:]
    api = (url, ssl.create_default_context(cafile=ca), Path(token_file).read_text())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, who = server.recvfrom(2_000)
            server.sendto(answer(query, api), who)


if __name__ == "__main__":
    main()
