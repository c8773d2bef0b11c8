"""docs/cli.md tells every command, every option, and every JSON key with its type."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_fixtures import build_tiny_engine, make_tiny_checkpoint

from slipstream import _wiki_text
from slipstream import fetch as fetch_module
from slipstream.cli import COMMANDS, main

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def section(heading: str) -> str:
    """The text under a heading, up to the next of its level."""
    level = heading.split()[0]
    start = DOCS.index(f"\n{heading}\n") + len(heading) + 2
    end = DOCS.find(f"\n{level} ", start)
    return DOCS[start:end] if end >= 0 else DOCS[start:]


def documented(*headings: str) -> dict[str, str]:
    """Key -> type of the tables under these headings."""
    keys = {}
    for heading in headings:
        for names, kind in re.findall(
            r"^\| (`[^|]+`) \| ([^|]+) \| [^|]+ \|$", section(f"### {heading}"), re.MULTILINE
        ):
            for name in re.findall(r"`([^`]+)`", names):
                keys[name] = kind
    assert keys
    return keys


def leaves(value: Any, known: dict[str, str], path: str = "") -> Iterator[tuple[str, Any]]:
    """(key as the docs write it, value) of everything; stops below what the docs call a whole."""
    if path in known:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            name = f"{path}.{key}" if path else key
            star = f"{path}.*"
            varies = any(k == star or k.startswith((f"{star}.", f"{star}[")) for k in known)
            yield from leaves(inner, known, star if varies else name)
    elif isinstance(value, list) and any(k.startswith(f"{path}[]") for k in known):
        for item in value:
            yield from leaves(item, known, f"{path}[]")
    elif path not in known:
        yield path, value


def check(value: dict[str, Any], known: dict[str, str], absent: tuple[str, ...] = ()) -> None:
    """The keys are those of the docs, all of them, with values of the types that the docs say."""
    opaque = {key for key, kind in known.items() if kind == "object"}
    seen = set()
    for path, item in leaves(value, known):
        if any(path.startswith(f"{key}.") for key in opaque) and path not in known:
            continue
        assert path in known, f"docs/cli.md does not tell of {path}"
        seen.add(path)
        kind = known[path]
        if kind == "any":
            continue
        if kind.startswith("array of ") and isinstance(item, list):
            assert all(type(x) in TYPES[kind[len("array of ") :]] for x in item), (path, item)
            continue
        allowed = [t for word in re.split(r", | or ", kind) for t in TYPES[word]]
        assert type(item) in allowed, f"{path} is {item!r}, docs/cli.md says {kind}"
    assert seen == set(known) - set(absent)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


@pytest.fixture(scope="module")
def engine_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_tiny_engine(tmp_path_factory.mktemp("tiny"))


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(arguments) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_told_and_no_other(command: str) -> None:
    parser = importlib.import_module(COMMANDS[command][0]).make_parser()
    rows = re.findall(
        r"^\| (`[^|]+`) \| [^|]+ \|$", section(f"## slipstream {command}"), re.MULTILINE
    )
    told = {re.split(r"[ =]", name)[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    accepted = set()
    for action in parser._actions:
        accepted |= set(action.option_strings) or {action.metavar}
        assert action.help, f"{action} has no help"
    assert told == accepted


def test_json_of_version(capsys: pytest.CaptureFixture[str]) -> None:
    facts = output(capsys, "--version", "--json")
    check(facts, documented("JSON of `slipstream --version --json`"))
    assert set(facts["targets"]) == {"cpu", "tensorrt-rtx"} and facts["targets"]["cpu"]
    paths = facts["native"]["cpu_paths"]
    assert {"scalar", "emulated16"} <= set(paths["supported"]) <= set(paths["compiled"])
    assert paths["auto"] in paths["supported"]


def test_json_of_run(engine_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = documented("JSON of `slipstream run --json`")
    base = ("run", engine_path, "--prompt", "the", "--max-tokens", "3", "--json")
    scored = output(capsys, *base, "--logprobs")
    check(scored, known)
    inner = tuple(key for key in known if ".logprobs[]." in key)
    plain = output(capsys, *base)
    check(plain, known, absent=inner)
    assert scored["outputs"][0]["token_ids"] == plain["outputs"][0]["token_ids"]
    assert plain["outputs"][0]["logprobs"] is None


def test_json_of_build(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = documented("JSON of `build-engine --json`")
    out = tmp_path / "m.engine"
    built = output(capsys, "build", str(folder), "-o", str(out), "--json", "--name", "Tiny")
    check(built, known)
    assert built["name"] == "Tiny" and built["file_bytes"] == out.stat().st_size
    manifest = output(capsys, "inspect", str(out), "--json")
    assert (manifest["model"]["name"], manifest["build_id"]) == ("Tiny", built["build_id"])
    known |= documented("JSON of `build-engine --dry-run --json`")
    only_built = ("path", "build_id", "seconds", "peak_memory_bytes")
    check(output(capsys, "build", str(folder), "--dry-run", "--json"), known, absent=only_built)


def test_json_of_inspect(engine_path: str, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = output(capsys, "inspect", engine_path, "--json")
    known = documented("JSON of `slipstream inspect --json`")
    check(manifest, known)
    assert {key.split(".")[0] for key in known} == set(manifest)


def test_json_of_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch_module, "extract", lambda file, dump, progress: None)
    monkeypatch.setattr(_wiki_text, "convert", lambda dump, out: (out / "wiki.txt").write_text("x"))
    known = documented("JSON of `slipstream fetch --json`")
    for there in (False, True):
        facts = output(capsys, "fetch", "wiki-excerpt", "-o", str(tmp_path / "w"), "--json")
        check(facts, known)
        assert facts["already_there"] is there and facts["files"] == {"wiki.txt": 1}
