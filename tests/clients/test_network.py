"""The real clients where the network is kept to their provider: they reach it through the proxy, and nothing else."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = [pytest.mark.clients, pytest.mark.slow]
FOR = ("claude", "codex", "copilot")
FETCH = "import urllib.request, urllib.error\ntry: urllib.request.urlopen('http://example.invalid/x')\nexcept urllib.error.HTTPError as e: print(e.read().decode())"


def test_a_client_reaches_its_provider_through_the_proxy_and_no_other_host(stage):
    stage.need("bubblewrap")
    stage.set(agents=f'{{ {stage.client} = {{ network = "providers" }} }}')
    fetch = os.path.join(stage.root, "bin", "fetch.py")
    with open(fetch, "w", encoding="utf-8") as file:
        file.write(FETCH)
    server = stage.serve(
        ("shell", f"{sys.executable} {fetch}; env | grep -i _proxy"), stage.write("owned/a.txt"),
        ("tool", "finish", {"summary": "by tool"}), ("say", "finished"), host="127.0.0.2",
    )  # fmt: skip
    end = stage.run()
    assert "error" not in end, end
    assert (end["outcome"], end["state"], end["reason"]) == ("ok", "done", "by tool"), stage.log(end)
    assert "does not let this session reach example.invalid:80" in server.all_texts(), stage.log(end)
    assert "example.invalid:80" in stage.cli("log").out
    stage.note("reaches its provider alone")
