"""Secrets are taken out wherever they stand, and ordinary words stay."""

from __future__ import annotations

from handoff.base.redaction import MASK, RedactedStream, redact, says_secret, secret_values

DASHES = "-" * 5
KEY = f"{DASHES}BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----"


def test_names_that_say_secret_are_known_and_others_are_not():
    for name in "NPM_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD MYAPIKEY PGPASSWORD github_token SENTRY_DSN CARGO_REGISTRY_TOKEN".split():
        assert says_secret(name), name
    for name in "PATH KEYBOARD MONKEYS TOKENIZERS_PARALLELISM PWD COMPASS_HOME AUTHOR".split():
        assert not says_secret(name), name


def test_values_are_known_by_name_or_by_being_a_password_in_an_address_and_short_ones_are_left_alone(tmp_path):
    environment = {
        "A_KEY": "12345678",
        "B_KEY": "1234567",
        "C": "postgres://me:pass-word@db/x",
        "D_KEY": 'with"quote',
        "E_KEY": str(tmp_path),
    }
    values = secret_values(environment)
    assert set(values) == {"12345678", "pass-word", 'with"quote', 'with\\"quote'}
    assert redact('say "with\\"quote" and 1234567', values) == (f'say "{MASK}" and 1234567', 1)


def test_tokens_are_known_by_their_shape_and_ordinary_words_stay():
    for token in (
        "sk-ant-" + "a" * 30, "ghp_" + "a" * 36, "AKIA" + "A" * 16, "npm_" + "a" * 36, "glpat-" + "a" * 20, "hvs." + "a" * 24,
        "eyJ" + "a" * 20 + "." + "b" * 20 + "." + "c" * 20, KEY, KEY.replace("\n", "\\n"),
    ):  # fmt: skip
        assert redact(f'x "{token}" y')[0] == f'x "{MASK}" y', token
    for words in (
        "task-login-form-and-its-many-parts",
        "risk-of-a-very-long-sentence-here",
        "https://example.invalid:80/a@b",
    ):
        assert redact(words) == (words, 0)


def test_a_stream_is_clean_however_it_is_cut():
    text = f"before my-secret-value after\n{KEY}\nlast words my-secret-value".encode()
    for size in (1, 7, 64, 1000):
        stream = RedactedStream(("my-secret-value",))
        out = b"".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.rest()
        assert out.decode() == f"before {MASK} after\n{MASK}\nlast words {MASK}", size
    endless = RedactedStream(("my-secret-value",))
    out = b"".join(endless.feed(b"x" * 65536) for _ in range(40))
    assert len(out) > 1 << 20, "a line that never ends is not kept in memory"
