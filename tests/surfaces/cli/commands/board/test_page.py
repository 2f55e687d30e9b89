"""`page`: served once, then only linked to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import contextmanager

from sandbox import Cli


@contextmanager
def _served(cli, *words):
    """What `page` says that is served for so long."""
    process = cli.start("page", "--json", *words, stdout=subprocess.PIPE)
    said = b""
    while not said.endswith(b"}\n") and (line := process.stdout.readline()):
        said += line
    yield json.loads(said)
    process.send_signal(signal.SIGTERM)  # an interrupt is not heard by what a shell has started in the background
    process.communicate(timeout=30)


def test_the_page_is_served_once_and_later_calls_only_make_links_to_it(cli, repo):
    with _served(cli) as first:
        _only_links(cli, first)


def test_a_folder_without_git_has_the_page_of_whoever_works_there(tmp_path):
    (tmp_path / "plain").mkdir()
    cli = Cli(str(tmp_path / "plain"))
    with _served(cli, "--project", "plain") as first:  # as `work` names it
        _only_links(cli, first)


def _only_links(cli, first):
    second = cli("page", "--json", "--read-only").json
    assert second["url"] == first["url"]
    assert second["link"] != first["link"]
    assert second["rights"] == "read"
    kept = os.listdir(os.path.join(os.environ["HANDOFF_HOME"], "pages", "links"))
    assert not any(first["link"].endswith(name) for name in kept)


def test_a_place_that_cannot_be_had_is_an_error_with_a_way_out(cli, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = cli("page", "--port", str(taken.getsockname()[1]), code=1)
    assert "Cannot listen on 127.0.0.1" in answer.err
    assert "--certificate FILE and --key FILE" in cli("page", "--certificate", str(tmp_path), code=1).err
