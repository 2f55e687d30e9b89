"""The index of words: the same answers on both databases, read or not read yet, and nobody who writes waits for it."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.base.errors import UserError
from handoff.board.events import index, journal
from handoff.board.events.index import cut, excerpt, read_query
from handoff.board.sessions import sessions
from handoff.board.tasks import outcomes, tasks


def found(database, words, *, project="shop", kinds=(), before=journal.NEWEST, limit=20):
    hits, _ = index.events(
        database, read_query(words), project=project, kinds=kinds, before=before, limit=limit
    )  # fmt: skip
    return [event.task_id for event, _ in hits]


def read_all(database):
    while index.step(database, limit=7):
        continue


def write_some(database):
    tasks.add(database, project="shop", id="mail", title="Sign-in", brief="Send the sign-in link by mail.")
    tasks.add(database, project="shop", id="chinese", brief="登录链接 für Gäste")
    tasks.add(database, project="depot", id="mail-too", brief="Another link by mail.")
    done = tasks.add(database, project="shop", id="post", brief="x")
    outcomes.finish(database, key=done.key, summary="Mail_goes out; link is in app/mail_link.py")


QUESTIONS = [
    ("mail link", (), ["post", "mail"]),
    ('"sign-in link"', (), ["mail"]),
    ("sign-in*", (), ["mail"]),
    ("mail_li*", (), ["post"]),
    ("link", ("report",), ["post"]),
    ("link", ("brief", "note"), ["mail"]),
    ("登录", (), ["chinese"]),
    ("GASTE fur", (), ["chinese"]),
    ("link AND", (), []),
    ("nowhere", (), []),
    ('link" OR project:"depot', (), []),
]


def test_lines_are_found_alike_before_and_after_the_index_has_read_them(database):
    index.step(database)
    write_some(database)
    for _ in range(2):
        assert [found(database, words, kinds=kinds) for words, kinds, _ in QUESTIONS] == [
            hits for *_, hits in QUESTIONS
        ]
        assert found(database, "link", project="") == ["post", "mail-too", "mail"]
        read_all(database)


def test_an_edited_brief_is_found_by_its_new_words_alone(database):
    task = tasks.add(database, project="shop", id="mail", brief="Send a pigeon.")
    read_all(database)
    tasks.edit(database, key=task.key, brief="Send a letter.")
    assert found(database, "letter") == ["mail"]
    read_all(database)
    assert found(database, "letter") == ["mail"]
    tasks.edit(database, key=task.key, priority=3)
    assert found(database, "letter") == ["mail"]  # once, however often its task was changed
    assert found(database, "pigeon") == []


def test_pages_by_number_miss_nothing_and_repeat_nothing(database):
    with database.transaction() as transaction:
        for number in range(30):
            journal.append(transaction, "note.added", project="shop", text=f"apple {number}")
    read_all(database)
    with database.transaction() as transaction:
        journal.append(transaction, "note.added", project="shop", text="apple of today")
    pages, before = [], journal.NEWEST
    while True:
        hits, _ = index.events(database, read_query("apple"), project="shop", kinds=(), before=before, limit=7)
        if not hits:
            break
        pages += [event.body["text"] for event, _ in hits]
        before = hits[-1][0].seq
    assert pages == ["apple of today", *(f"apple {number}" for number in range(29, -1, -1))]


def test_a_line_longer_than_an_index_can_hold_keeps_no_other_line_from_being_found(database):
    with database.transaction() as transaction:
        journal.append(
            transaction, "note.added", project="shop", text=" ".join(f"{n}{'x' * 90}" for n in range(20_000))
        )
        journal.append(transaction, "note.added", project="shop", text="cherry")
        journal.append(transaction, "note.added", project="shop", text="cherry " * 20_000)
    read_all(database)
    hits, _ = index.events(database, read_query("cherry"), project="", kinds=(), before=journal.NEWEST, limit=9)
    assert [len(event.body["text"]) for event, _ in hits] == [140_000, 6]


def test_two_who_read_at_once_put_no_line_in_twice(place):
    first = place.open()
    with first.transaction() as transaction:
        for number in range(200):
            journal.append(transaction, "note.added", project="shop", text=f"pear {number}")
    threads = [threading.Thread(target=lambda: read_all(place.open())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hits, unread = index.events(first, read_query("pear"), project="", kinds=(), before=journal.NEWEST, limit=500)
    assert (len(hits), unread) == (200, 0)


def test_a_journal_longer_than_a_search_looks_through_says_how_much_is_missing(database):
    with database.transaction() as transaction:
        for number in range(25):
            journal.append(transaction, "note.added", project="shop", text=f"plum {number}")
    index.step(database, limit=5)
    ask = {"project": "shop", "kinds": (), "before": journal.NEWEST, "limit": 99, "look_through": 10}
    hits, unread = index.events(database, read_query("plum"), **ask)
    assert [int(event.body["text"].split()[1]) for event, _ in hits] == [*range(24, 14, -1), *range(4, -1, -1)]
    assert unread == 10


def test_what_a_session_said_is_found_in_every_piece_of_it(database):
    index.step(database)
    who = sessions.SessionIdentity(id="session-a", kind=sessions.AGENT, project="shop", agent="codex", host="here")
    sessions.register(database, who=who)
    sessions.end(database, id="session-a")
    assert [one.id for one in sessions.unread(database, host="here", limit=5)] == ["session-a"]
    assert sessions.unread(database, host="there", limit=5) == []
    words = cut("early bird " + "filler " * 250 + " late bird")
    whose = {"session": "session-a", "project": "shop", "task": None, "agent": "codex", "host": "here", "at": 1.0}
    index.add_transcript(database, words, piece=100, **whose)
    assert sessions.unread(database, host="here", limit=5) == []
    ask = {"project": "shop", "before": journal.NEWEST, "limit": 9}
    assert [part.part for part in index.transcripts(database, read_query("bird"), **ask)] == [2, 0]
    assert [part.part for part in index.transcripts(database, read_query('"early bird"'), **ask)] == [0]
    assert index.transcripts(database, read_query("bird"), **{**ask, "project": "depot"}) == []


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_no_question_breaks_the_search(text):
    try:
        query = read_query(text)
    except UserError:
        return
    assert query.matches(cut(text)) or "*" in text
    assert len(excerpt(text * 9, query)) <= 162


@pytest.mark.parametrize("text", ["", '"', "***", '" "', "()", "-", "^", "a*", "x " * 40])
def test_a_question_without_words_says_what_to_give(text):
    with pytest.raises(UserError) as caught:
        read_query(text)
    assert caught.value.hint
