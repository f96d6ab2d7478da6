"""A secret in every form that a program may write it in; and texts that stay what they are."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from benchcard.runner.secrets import Redactor, learn, open_card, open_files, redact_env
from benchcard.runner.secrets.names import is_strong, speaks_of_secret
from benchcard.runner.secrets.redactor import environment_secrets
from benchcard.runner.secrets.scrub import Needles, Stream, scrub
from benchcard.schema.errors import InputError
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = 'sk-Canary+7/f"3\\.*(z)=é'

FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "upper": str.upper,
    "url": lambda s: urllib.parse.quote(s, safe=""),
    "path": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "url, lower": lambda s: urllib.parse.quote(s, safe="").lower(),
    "json": lambda s: json.dumps({"a": s}),
    "json, unicode": lambda s: json.dumps(s, ensure_ascii=False),
    "json in json": lambda s: json.dumps(json.dumps(s)),
    "url in a url": lambda s: "?next=" + urllib.parse.quote(urllib.parse.quote(s, safe=""), safe=""),
    "json of .NET": lambda s: re.sub(r"[+&<>'`]", lambda m: f"\\u{ord(m[0]):04X}", json.dumps(s)),
    "html of Mustache": lambda s: re.sub(r"[/`=]", lambda m: f"&#x{ord(m[0]):X};", html.escape(s)),
    "html": html.escape,
    "python": repr,
    "bytes": lambda s: repr(s.encode()),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "basic": lambda s: "Authorization: Basic " + base64.b64encode(f"user:{s}".encode()).decode(),
    "base64 of a header": lambda s: base64.b64encode(f"Bearer {s}\r\n".encode()).decode(),
    "base64, url": lambda s: base64.urlsafe_b64encode(f"x{s}yz".encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("key", [KEY, "abcdefgh1", "a.b*c[d]e+f(g)", "correct horse battery staple"])
def test_no_form_of_a_secret_stays(form: str, key: str) -> None:
    written = FORMS[form](key)
    said = Redactor([key]).text(f"it says <{written}>, twice: {written}")
    assert said is not None
    assert said.count("[redacted]") == 2
    assert written not in said
    assert key.lower() not in said.lower()
    for start in range(len(written) - 8):
        if form not in ("json", "json in json", "json of .NET", "url in a url", "basic"):  # their own letters stay
            assert written[start : start + 9] not in said


@settings(deadline=None)
@given(
    st.text(min_size=8, max_size=40),
    st.sampled_from(sorted(FORMS)),
    st.binary(max_size=30),
    st.binary(max_size=30),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_a_log_in_pieces_is_cut_nowhere(key: str, form: str, before: bytes, after: bytes, cuts: list[int]) -> None:
    if not is_strong(key) or form == "upper":
        return
    data = before + b"\n<" + FORMS[form](key).encode() + b">\n" + after
    stream = Stream(Redactor([key]).needles)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    out = b"".join(stream.feed(data[a:b]) for a, b in pairwise(places)) + stream.close()
    assert FORMS[form](key).encode() not in out
    assert b"[redacted]" in out


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_without_secrets_a_log_stays_byte_for_byte(data: bytes) -> None:
    stream = Stream(Needles())
    out = b"".join(stream.feed(data[at : at + 3]) for at in range(0, len(data), 3)) + stream.close()
    assert out == data or b"[redacted]" in out


TEXTS = [
    ("FOO=bar FOO=bars", "FOO=[redacted] FOO=bars"),
    ("{'FOO': 'bar', 'BAR': 'foo'}", "{'FOO': '[redacted]', 'BAR': 'foo'}"),
    ('{"FOO":"bar"}', '{"FOO":"[redacted]"}'),
    ("declare -x FOO=\"bar\"", "declare -x FOO=\"[redacted]\""),
    ("serve --api-key abcd1234x --port 80", "serve --api-key [redacted] --port 80"),
    ("['--api-key', 'abcd1234x']", "['--api-key', '[redacted]']"),
    ("{'api_key': ['abcd1234x']}", "{'api_key': ['[redacted]']}"),
    ("GET http://me:pw@proxy:80/x?token=qwe12rtyu&n=1", "GET http://[redacted]@proxy:80/x?token=[redacted]&n=1"),
    ("authorization: Bearer qwe12rtyu.x", "authorization: Bearer [redacted]"),
    ("key hf_0123456789abcdefgh was refused", "key [redacted] was refused"),
    # what stays: settings, numbers, prose
    ("max_num_batched_tokens=2048, tokenizer='x', token: 5", "max_num_batched_tokens=2048, tokenizer='x', token: 5"),
    ("invalid token: expected a number", "invalid token: expected a number"),
    ("pass_config={'fuse_norm_quant': True}", "pass_config={'fuse_norm_quant': True}"),
    ("google-auth==2.40.3.post1 pyjwt-auth: 2.40.3.post1", "google-auth==2.40.3.post1 pyjwt-auth: 2.40.3.post1"),
    ("wants bearer authentication", "wants bearer authentication"),
    # the short key is a word of its own here, and a part of another there
    ("key pw9x is wrong; spw9xy is not", "key [redacted] is wrong; spw9xy is not"),
    ("Bearer none", "[redacted]"),
    ("quantization=None", "quantization=None"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), TEXTS)
def test_texts(text: str, wanted: str) -> None:
    assert Redactor(["pw9x", "none"], {"FOO": "bar"}).text(text) == wanted


def test_a_record_is_not_turned_to_stars_by_a_short_secret() -> None:
    """A password that is a word of the format's own: it stays in records, and leaves free text."""
    redactor = Redactor(["candidate", "complete", "1", "ok"])
    record = {"kind": "cell_ended", "arm": "candidate", "why": "complete", "n": 1, "outcome": "ok"}
    assert redactor.value(record) == record
    assert redactor.text("key candidate refused") == "key [redacted] refused"


def test_structures() -> None:
    redactor = Redactor([KEY])
    told = {"version": f"1 {KEY}", KEY: [KEY, 1, None, True], "hf_token": "x", "api_key": ["y"], "token_threshold": 512}
    told |= {"libsecret-1.so": "sha256:" + "a" * 64, "google-auth": "2.40.3"}
    assert redactor.value(told) == {
        "version": "1 [redacted]", "[redacted]": ["[redacted]", 1, None, True], "hf_token": "[redacted]",
        "api_key": ["[redacted]"], "token_threshold": 512, "libsecret-1.so": "sha256:" + "a" * 64,
        "google-auth": "2.40.3",
    }  # fmt: skip
    argv = ["serve", "--api-key", "x", "--hf-token=y", "--port", "80", f"-H{KEY}"]
    assert redactor.argv(argv) == [
        "serve", "--api-key", "[redacted]", "--hf-token=[redacted]", "--port", "80", "-H[redacted]",
    ]  # fmt: skip


def test_names() -> None:
    secret = "API_KEY api-key apiKey HF_TOKEN HF_TOKEN_2 PGPASSWORD AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID MYSQL_PWD "
    secret += "VLLM_API_KEY Authorization x-api-key SSH_AUTH_SOCK OPENAI_KEYS SESSION_COOKIE"
    assert [name for name in secret.split() if not speaks_of_secret(name)] == []
    plain = "PWD OLDPWD key PATH TOKENIZERS_PARALLELISM max-tokens max_token_num pass_config MONKEY KEYBOARD "
    plain += "long_prefill_token_threshold tokenizer VLLM_DP_RANK author compass"
    assert [name for name in plain.split() if speaks_of_secret(name)] == []


def test_an_environment() -> None:
    environ = {
        "HF_TOKEN": "abcdefgh1", "HTTPS_PROXY": "http://me:pa%2Fss@proxy:80", "X": "authorization=Bearer tok12345",
        "SSH_AUTH_SOCK": "/tmp", "MODEL": "smollm2-135m-instruct", "OTHER": "zzz-135m-instruct-9", "PATH": "/bin",
        "VLLM_X": "smollm3-135m-instruct",
    }  # fmt: skip
    secrets, named = environment_secrets(environ, public='{"model": "smollm2-135m-instruct"}')
    assert secrets == {"abcdefgh1", "pa%2Fss", "pa/ss", "tok12345", "zzz-135m-instruct-9"}
    assert set(named) == {"HF_TOKEN", "HTTPS_PROXY", "X", "OTHER"}


def test_variables_for_the_record() -> None:
    env = {"HF_TOKEN": "x", "A": 1, "http_proxy": "http://me:pw@proxy:80", "EMPTY_KEY": ""}
    assert redact_env(env) == {
        "HF_TOKEN": "[redacted]", "A": "1", "http_proxy": "http://[redacted]@proxy:80", "EMPTY_KEY": "",
    }  # fmt: skip


def test_keys_of_several_lines_and_in_json() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq+1\nhkiG9w0BAQEFAASC/2\n-----END PRIVATE KEY-----"
    for held in (pem, json.dumps({"type": "service_account", "private_key": pem, "project": "x"})):
        said = Redactor([held]).text(f"a MIIEvQIBADANBgkq+1\nb hkiG9w0BAQEFAASC/2\n{json.dumps(pem)}")
        assert said is not None
        assert "MIIE" not in said
        assert "hkiG" not in said


def test_paths_of_a_log() -> None:
    needles = Redactor([], None, [("/users/me/here/", ""), ("/users/me/", "~/")]).needles
    assert scrub(b"at /users/me/here/a.py, /users/me/b", Needles.from_json(needles.as_json())) == b"at a.py, ~/b"


def test_a_card_that_holds_a_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary-0123456")
    monkeypatch.setenv("HF_TOKEN", "atlas")
    with pytest.raises(InputError) as caught:
        open_card({"model": "atlas"}, "# canary-0123456\n")
    assert str(caught.value) == (
        "the card holds a secret: the value of the environment variable MY_TOKEN, which is not shown; wanted no secret "
        "on a card, since every bundle holds it (a server that is launched inherits the environment)"
    )
    open_card({"model": "atlas"}, "")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "my key is sk-canary-0123456"}')
    learn("sk-canary-0123456")
    with pytest.raises(InputError, match=r"prompts\.jsonl: it holds a secret of the environment, which is not shown"):
        open_files([tmp_path / "prompts.jsonl"])
    open_card({})
