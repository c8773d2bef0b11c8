"""`slipstream fetch`: the catalogue, the cache, what goes wrong, and the real model."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from slipstream import _download, _smollm2, _wiki_text, cache_dir
from slipstream.errors import CorruptFileError, InvalidArgumentError, IoError, NotFoundError
from slipstream.fetch import fetch, main

ARTICLE = (
    "An ''article'' with a [[link|linked word]]{{template {{nested}}}} and <b>tags</b>. " * 200
)
DUMP = f"""<page><title>Long</title><text xml:space="preserve">{ARTICLE}

== Heading ==
* a list item
Closing prose.

==References==
gone</text></page>
<page><title>Short</title><text>too short</text></page>
<page><title>Moved</title><text>#REDIRECT [[Long]]</text></page>"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SLIPSTREAM_CACHE", str(cache))
    # No test of this file may reach a package index by accident.
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return cache


def put_wheel(cache: Path, file: _download.PackagedFile, content: bytes) -> Path:
    wheel = cache / "downloads" / file.wheel_pattern.replace("*", "py3-none-any")
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"package/{file.member_suffix}", content)
    return wheel


@pytest.fixture
def text_wheel(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import bz2

    content = bz2.compress(DUMP.encode())
    file = _download.PackagedFile(
        package="small-text",
        version="1.0",
        member_suffix="dump.bz2",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    monkeypatch.setattr(_wiki_text, "FILE", file)
    return put_wheel(own_cache, file, content)


def test_text_is_made_once_and_then_found(
    text_wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "text"
    assert main(["wiki-excerpt", "-o", str(out)]) == 0
    assert "ready" in capsys.readouterr().out
    text = (out / "wiki.txt").read_text()
    assert text.startswith("Long\n\nAn article with a linked word and tags.")
    assert text.endswith("Heading\nClosing prose.")
    for gone in ("template", "list item", "References", "Short", "REDIRECT"):
        assert gone not in text
    text_wheel.unlink()  # the second call needs nothing
    assert main(["wiki-excerpt", "-o", str(out)]) == 0
    assert "already complete" in capsys.readouterr().out
    assert [path.name for path in out.parent.iterdir()] == ["text"]


def test_a_cut_folder_is_not_taken_for_complete(text_wheel: Path, tmp_path: Path) -> None:
    out = fetch("wiki-excerpt", tmp_path / "text").path
    (out / "wiki.txt").write_text("cut")
    with pytest.raises(InvalidArgumentError, match="holds something else"):
        fetch("wiki-excerpt", out)


def test_an_existing_folder_of_others_is_left_alone(text_wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(InvalidArgumentError, match="holds something else"):
        fetch("wiki-excerpt", tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert not fetch("wiki-excerpt", empty).already_there


def test_wrong_content_is_refused_by_its_hash(
    own_cache: Path, text_wheel: Path, tmp_path: Path
) -> None:
    wrong = put_wheel(own_cache, _wiki_text.FILE, b"x" * _wiki_text.FILE.size)
    # The cached wheel is dropped, and downloading it again has no index here.
    with pytest.raises(IoError, match=r"could not download small-text==1\.0"):
        fetch("wiki-excerpt", tmp_path / "out")
    assert not wrong.exists()
    assert not (tmp_path / "out").exists()


def test_a_wrong_download_is_refused(
    own_cache: Path, text_wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    text_wheel.unlink()
    with zipfile.ZipFile(index / "small_text-1.0-py3-none-any.whl", "w") as archive:
        info = "small_text-1.0.dist-info/"
        archive.writestr(
            info + "METADATA", "Metadata-Version: 2.1\nName: small-text\nVersion: 1.0\n"
        )
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")
        archive.writestr("package/dump.bz2", b"not the file")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(CorruptFileError, match=r"is 12 bytes with SHA-256 .*; expected"):
        fetch("wiki-excerpt", tmp_path / "out")
    assert not list((own_cache / "downloads").glob("*.whl"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "index"]


def test_full_disk_leaves_nothing(
    text_wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(dump: Path, out: Path) -> None:
        (out / "half").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_wiki_text, "convert", full)
    with pytest.raises(IoError, match="No space left on device"):
        fetch("wiki-excerpt", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


def test_wrong_arguments_exit_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgumentError, match="smollm2-135m-instruct, wiki-excerpt"):
        fetch("smollm", tmp_path / "x")
    assert main(["wiki-excerpt", "-o", str(tmp_path / "x"), "--off-grid", "1"]) == 2
    assert main(["smollm2-135m-instruct", "-o", str(tmp_path / "x"), "--off-grid", "-1"]) == 2
    (tmp_path / "file").write_text("")
    assert main(["wiki-excerpt", "-o", str(tmp_path / "file")]) == 2
    assert main(["wiki-excerpt", "-o", str(tmp_path / "file" / "below")]) == 2
    for wrong in (["wiki-excerpt"], ["smollm", "-o", str(tmp_path / "x")]):
        with pytest.raises(SystemExit) as exit_info:
            main(wrong)
        assert exit_info.value.code == 2
    error = capsys.readouterr().err
    assert "smollm2-135m-instruct" in error and "wiki-excerpt" in error


def test_missing_gguf_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "slipstream._smollm2")
    monkeypatch.delattr("slipstream._smollm2", raising=False)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(NotFoundError, match=r"slipstream\[fetch\]"):
        fetch("smollm2-135m-instruct", tmp_path / "out")


def test_cache_dir_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPSTREAM_CACHE", "/a/b")
    assert cache_dir() == Path("/a/b")
    monkeypatch.delenv("SLIPSTREAM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache_dir() == Path("/c/slipstream")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == Path.home() / ".cache" / "slipstream"


@pytest.mark.parametrize("home", ["", "relative/home", None])
def test_cache_dir_without_a_home(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLIPSTREAM_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("HOME", home)
    known = pwd.getpwuid(os.getuid()).pw_dir
    assert cache_dir() == Path(known) / ".cache" / "slipstream"

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(NotFoundError, match="set SLIPSTREAM_CACHE"):
        cache_dir()


def read_header(path: Path) -> dict[str, dict[str, object]]:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header: dict[str, dict[str, object]] = json.loads(data[8 : 8 + size])
    return header


def test_smollm2_folder(smollm2_dir: Path) -> None:
    """The checkpoint that the package gives: shapes, a real tokenizer, a chat template."""
    tokenizers = pytest.importorskip("tokenizers")
    header = read_header(smollm2_dir / "model.safetensors")
    assert len(header) == 1 + 272
    assert header["model.embed_tokens.weight"]["shape"] == [49152, 576]
    assert header["model.layers.29.self_attn.k_proj.weight"]["dtype"] == "BF16"
    config = json.loads((smollm2_dir / "config.json").read_text())
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (9, 3)
    assert config["rms_norm_eps"] == 1e-5
    tokenizer = tokenizers.Tokenizer.from_file(str(smollm2_dir / "tokenizer.json"))
    ids = tokenizer.encode("It is 1984.<|im_end|>").ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == "It is 1984.<|im_end|>"
    assert [tokenizer.id_to_token(i) for i in ids[2:]] == ["Ġ", *"1984", ".", "<|im_end|>"]
    assert (
        "<|im_start|>"
        in json.loads((smollm2_dir / "tokenizer_config.json").read_text())["chat_template"]
    )


def test_off_grid_keeps_the_function_of_a_layer() -> None:
    """Rescaling along the symmetries changes every weight, but not what a layer computes."""
    rng = np.random.default_rng(0)
    heads, kv_heads, dim, hidden, ffn = 4, 2, 8, 32, 48
    shapes = {
        "input_layernorm": (hidden,),
        "q_proj": (heads * dim, hidden),
        "k_proj": (kv_heads * dim, hidden),
        "v_proj": (kv_heads * dim, hidden),
        "o_proj": (hidden, heads * dim),
        "post_attention_layernorm": (hidden,),
        "gate_proj": (ffn, hidden),
        "up_proj": (ffn, hidden),
        "down_proj": (hidden, ffn),
    }
    layer = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    before = {name: value.copy() for name, value in layer.items()}
    _smollm2._leave_grid(layer, heads, kv_heads, np.random.default_rng(3))

    def outputs(weights: dict[str, np.ndarray]) -> list[np.ndarray]:
        x = np.random.default_rng(1).normal(size=hidden)
        normed = x * weights["input_layernorm"]
        v = np.repeat(
            (weights["v_proj"] @ normed).reshape(kv_heads, dim), heads // kv_heads, axis=0
        )
        y = x * weights["post_attention_layernorm"]
        gate = weights["gate_proj"] @ y
        return [
            weights["q_proj"] @ normed,
            weights["k_proj"] @ normed,
            weights["o_proj"] @ v.reshape(-1),
            weights["down_proj"] @ (np.maximum(gate, 0) * (weights["up_proj"] @ y)),
        ]

    for name in layer:
        assert not np.array_equal(layer[name], before[name]), name
    for found, expected in zip(outputs(layer), outputs(before), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_rounds_to_nearest_even(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    values[:3] = [1.00390625, 1.01171875, -0.0]  # two ties: one rounds down, one up
    path = tmp_path / "bits"
    with path.open("wb") as sink:
        _smollm2._write_array(sink, values, "bfloat16")
    assert path.read_bytes() == values.astype(ml_dtypes.bfloat16).tobytes()


def test_fetch_imports_no_numpy_before_it_is_needed() -> None:
    code = "import sys, slipstream.fetch; sys.exit('numpy' in sys.modules or 'gguf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
