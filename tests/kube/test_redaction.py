"""Whatever was made known as secret is struck out, whole or in part, wherever it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.cli.session import redact
from growth.kube.redaction import SECRETS, SHORTEST_PART, Secrets

SECRET = "s3cr3tTOKENwithManyCharacters0123456789"


def test_a_token_and_every_longer_part_of_it_is_struck_out() -> None:
    secrets = Secrets()
    secrets.add_token(SECRET)
    assert secrets.redact(f"token {SECRET} is invalid") == "token [redacted] is invalid"
    assert secrets.redact(f"token {SECRET[5:15]}... is invalid") == "token [redacted]... is invalid"
    assert secrets.redact("nothing here") == "nothing here"


@given(st.integers(0, 30), st.integers(SHORTEST_PART, 39), st.text(max_size=20), st.text(max_size=20))
def test_no_part_of_eight_characters_survives(start: int, length: int, before: str, after: str) -> None:
    secrets = Secrets()
    secrets.add_token(SECRET)
    clean = secrets.redact(before + SECRET[start : start + length] + after)
    assert not any(SECRET[place : place + SHORTEST_PART] in clean for place in range(len(SECRET) - SHORTEST_PART + 1))


def test_a_short_secret_is_struck_out_as_a_whole() -> None:
    secrets = Secrets()
    secrets.add_token("abc")
    assert secrets.redact("x abc y") == "x [redacted] y"
    secrets.add_token("")
    assert secrets.redact("x y") == "x y"


def test_long_quotes_of_a_text_go_and_its_ordinary_words_stay() -> None:
    secrets = Secrets()
    secrets.add_text("#cloud-config\nruncmd:\n  - curl -sfL https://get.k3s.io | K3S_TOKEN=verysecret sh -\n")
    assert "verysecret" not in secrets.redact("error in line: curl -sfL https://get.k3s.io | K3S_TOKEN=verysecret sh -")
    assert secrets.redact("runcmd is not allowed") == "runcmd is not allowed"


def test_a_node_has_its_name_in_the_log_although_its_user_data_names_it() -> None:
    secrets, name = Secrets(), "default-pool-d0bd99ce2703-of-a-long-name"
    secrets.add_text(f"hostname: {name}\ntoken: {'verysecret' * 4}\n", public=[name])
    assert secrets.redact(f"node {name} serves after 6 s") == f"node {name} serves after 6 s"
    assert "verysecret" not in secrets.redact(f"token: {'verysecret' * 4}")


def test_secrets_that_were_replaced_stay_secret() -> None:
    secrets = Secrets()
    secrets.add_token("first-token-0001")
    secrets.add_token("second-token-0002")
    assert secrets.redact("first-token-0001 second-token-0002") == "[redacted] [redacted]"


def test_log_lines_are_redacted_in_every_field_and_in_objects_within() -> None:
    SECRETS.add_token(SECRET)
    event = redact(
        None,
        "info",
        {
            "event": f"a {SECRET}",
            "error": ValueError(SECRET),
            "list": [SECRET, 1],
            "map": {SECRET: None},
            "count": 3,
            "ok": True,
        },
    )
    assert SECRET[:SHORTEST_PART] not in repr(event)
    assert (event["count"], event["ok"]) == (3, True)


@pytest.mark.parametrize(
    "address", ["http://user:p4ss@proxy:3128", "https://user@host/path?x=a@b", "socks5://u:p@ss@host", "x://:p@h"]
)
def test_the_user_part_of_any_address_goes_and_the_host_stays(address: str) -> None:
    clean = Secrets().redact(f"no connection, url='{address}', and mail to a@b")
    scheme, _, rest = address.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    assert f"{scheme}://[redacted]@{host}" in clean
    assert clean.endswith("mail to a@b")


@pytest.mark.parametrize("text", ["https://host/path@1", "https://host:6443/api?user=a@b", "a://b c@d"])
def test_an_address_without_a_user_part_stays(text: str) -> None:
    assert Secrets().redact(text) == text


def test_the_password_of_an_address_is_secret_by_itself_and_as_it_is_sent() -> None:
    secrets = Secrets()
    secrets.add_url("http://me:long%20password@proxy:1")
    secrets.add_url("http://me:short@proxy:1")
    secrets.add_url("")
    assert secrets.redact("long password; bWU6bG9uZyBwYXNzd29yZA==; short") == "[redacted]; [redacted]; short"
