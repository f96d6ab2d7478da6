"""The rebuild of a run as files: requirements.lock, models.sha256, env.sh, run-<arm>.sh, MISSING.md. Pure."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

Rebuild = Mapping[str, Any]
_MASK = "[redacted]"


def rebuild_files(document: Rebuild) -> dict[str, str]:
    """{file name: text}. What is the same for all arms has one file; what differs has one for each arm."""
    arms = document["arms"]
    files: dict[str, str] = {}
    files |= _shared(arms, "requirements{}.lock", lambda arm: requirements(arms[arm]["packages"]))
    files |= _shared(arms, "models{}.sha256", lambda arm: sums(arms[arm]["model"]["files"]))
    common = _common(arms)
    if any(arms[arm]["command"] for arm in arms):
        files["env.sh"] = environment_script(document["run"], common, arms)
    for arm, built in arms.items():
        if built["command"]:
            own = {name: value for name, value in built["environment"]["set"].items() if common.get(name) != value}
            files[f"run-{arm}.sh"] = start_script(document["run"], arm, built["command"], own)
    files["MISSING.md"] = missing_text(document)
    return files


def _shared(arms: Mapping[str, Any], name: str, made: Callable[[str], str]) -> dict[str, str]:
    texts = {arm: made(arm) for arm in arms}
    if len(set(texts.values())) == 1:
        text = next(iter(texts.values()))
        return {name.format(""): text} if text else {}
    return {name.format(f"-{arm}"): text for arm, text in texts.items() if text}


def requirements(packages: Mapping[str, Mapping[str, Any]]) -> str:
    """A requirements file: `name==version`, and as a comment what else is known. No --hash: pip wants a wheel's, which
    an installed package does not have."""
    if not packages:
        return ""
    lines = [
        "# Every line is pinned by its version only. RECORD: the SHA-256 of the list of the files that were installed,",
        "# to compare with an environment once it is built; it is not the hash of an archive, and pip cannot check it.",
    ]
    for name, entry in packages.items():
        record = str(entry.get("record_sha256") or "").removeprefix("sha256:")
        note = f"  # RECORD {record}" if record else ""
        commit = f" of commit {entry['commit']}" if entry.get("commit") else ""
        if entry["pinned_by"] == "folder":
            lines.append(f"# {name}=={entry['version']} was an editable install{commit}: build it from its source")
        elif entry["pinned_by"] == "commit":
            lines.append(f"# {name}=={entry['version']} was installed from a repository{commit}: build it from there")
        else:
            lines.append(f"{name}=={entry['version']}{note}")
    return "\n".join(lines) + "\n"


def sums(files: Mapping[str, str]) -> str:
    """Digests for `sha256sum -c`, to be run in the model's folder."""
    plain = {name: digest for name, digest in files.items() if "\n" not in name and "\\" not in name}
    return "".join(f"{digest}  {name}\n" for name, digest in plain.items())


def _common(arms: Mapping[str, Any]) -> dict[str, str]:
    """Variables that all arms with a command have alike."""
    sets = [built["environment"]["set"] for built in arms.values() if built["command"]]
    return {k: v for k, v in (sets[0] if sets else {}).items() if all(other.get(k) == v for other in sets)}


def environment_script(run: str, common: Mapping[str, str], arms: Mapping[str, Any]) -> str:
    """Variables of all arms, for a shell; what cannot be set is named."""
    lines = [f"# The environment of the servers of run {_line(run)}, as far as it is recorded and is no secret."]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in common.items() if _is_name(name)]
    for key, text in (
        ("secret", "secrets, or hold one"),
        ("by_process", "not the same in all of the server's processes"),
        ("not_recorded", "not recorded"),
    ):
        names = sorted({_line(name) for built in arms.values() for name in built["environment"][key]})
        if names:
            said = f"Also set; their values are {text}: {', '.join(names)}"
            lines += textwrap.wrap(said, 100, initial_indent="# ", subsequent_indent="#   ", break_long_words=False)
    return "\n".join(lines) + "\n"


def start_script(run: str, arm: str, command: list[str], own: Mapping[str, str]) -> str:
    """A shell script that starts an arm's server. PORT, LOG and PYTHON are the caller's; a secret on the command line
    is asked for."""
    lines = [
        "#!/bin/sh",
        f"# Starts the server of the {arm} as in run {_line(run)}.",
        "# PORT: where it listens (default 8000). PYTHON: the interpreter, in place of the one of the run.",
        "set -eu",
        '. "$(dirname "$0")/env.sh"',
        *(f"export {name}={shlex.quote(value)}" for name, value in own.items() if _is_name(name)),
    ]
    if any(word == "LOG" for word in command):
        lines.append(f'LOG="${{LOG:-engine-{arm}.jsonl}}"')
    words, secret = [], 0
    for number, word in enumerate(command):
        if _MASK in word:
            secret += 1
            words.append(
                f'"${{SECRET_{secret}:?a secret that the run does not record; the {_place(command, number)}}}"'
            )
        else:
            words.append(_word(command, number))
    return "\n".join([*lines, "exec " + " \\\n  ".join(_by_flag(words)), ""])


def _word(command: list[str], number: int) -> str:
    word, before = command[number], command[number - 1] if number else ""
    if number == 0 and word.rpartition("/")[2].startswith("python"):
        return f'"${{PYTHON:-{word}}}"' if shlex.quote(word) == word else '"${PYTHON:-python3}"'
    for name, value in (("--port", "PORT"), ("--log", "LOG")):
        default = '"${PORT:-8000}"' if value == "PORT" else '"$LOG"'
        if before == name and word == value:
            return default
        if word == f"{name}={value}":
            return f"{name}={default}"
    return shlex.quote(word)


def _place(command: list[str], number: int) -> str:
    before = command[number - 1] if number else ""
    plain = before if before.replace("-", "").isalnum() else "command"
    return f"value of {plain}" if before.startswith("--") else f"word {number + 1} of the command"


def _by_flag(words: list[str]) -> list[str]:
    """A line for each flag with its values."""
    lines = [words[0]]
    for word in words[1:]:
        if word.startswith(("--", "'--")):
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def missing_text(document: Rebuild) -> str:
    """What is missing, as Markdown."""
    rows = missing_rows(document)
    head = f"# What is missing for building the systems of {_line(document['run'])} again\n\n"
    return head + ("\n".join(f"- {row}" for row in rows) if rows else "Nothing that is known of.") + "\n"


def missing_rows(document: Rebuild) -> list[str]:
    """A sentence for each gap."""
    whole = len(document["arms"])
    rows = []
    for row in document["missing"]:
        of = "" if len(row["arms"]) == whole else f" ({', '.join(row['arms'])})"
        rows.append(f"{row['what']}{of}: {row['why']}")
    return rows


def _is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii()


def _line(text: str) -> str:
    """Text for a comment: it cannot end the line."""
    return "".join(c if c.isprintable() else "?" for c in text)


def rebuild_text(document: Rebuild) -> str:
    """The whole rebuild for people."""
    lines = [f"rebuild of {document['run']}", f"card {document['card_digest']}"]
    lines += [f"  names {path}, {digest}: in the run under inputs/" for path, digest in document["card_files"]]
    told: dict[tuple[str, ...], list[str]] = {}
    for arm, built in document["arms"].items():
        told.setdefault(tuple(_arm_lines(built)), []).append(arm)
    for rows, of in told.items():
        lines += ["", ", ".join(of), *rows]
    files = rebuild_files(document)
    for name in files:
        if name != "MISSING.md":
            lines += ["", f"--- {name}", files[name].rstrip("\n")]
    lines += ["", "What is missing for that", *(f"  {row}" for row in missing_rows(document))]
    return "\n".join(lines)


def _arm_lines(built: Mapping[str, Any]) -> list[str]:
    engine, model, python = built["engine"], built["model"], built["python"]
    commit = f", commit {engine['commit']}" if engine["commit"] else ""
    rows = [
        ("engine", f"{engine['kind']} {engine['version'] or 'of unknown version'}{commit}"),
        ("python", f"{python['version']} (told by {python['from']})" if python else None),
        ("url", built["url"]),
        ("model", " ".join(filter(None, (model["name"], f"from {model['path']}" if model["path"] else None)))),
        *((key, model[key]) for key in ("precision", "context_limit", "weights_sha256", "chat_template_sha256")),
        *((key, model[key]) for key in ("tokenizer_sha256", "draft_weights_sha256")),
        *((f"file {name}", digest) for name, digest in built["command_files"].items()),
        *built["system"].items(),
    ]
    shown = [(name, value) for name, value in rows if value not in (None, "", {}, [])]
    width = max(len(name) for name, _ in shown)
    return [
        f"  {name:<{width}}  {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in shown
    ]
