"""Split patterns without a hand-written matcher cut texts as Hugging Face `tokenizers` does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from tokenizer_cases import random_pattern, random_pattern_text
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Reference

from slipstream._native import StreamDecoder
from slipstream._native import Tokenizer as Ours
from slipstream.errors import InvalidArgumentError, SlipstreamError

# As tokenizers in use have them: DeepSeek's second stage, BLOOM, Kimi, newer cl100k, marks with
# letters, Falcon; and cuts at places instead of text.
REAL = [
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[0-9][0-9][0-9]",
    r"(?<=\p{Ll})(?=\p{Lu})|\b",
]


class Cutter:
    """A tokenizer of both sides with one Split: every piece is the id of a word that it learns."""

    def __init__(self, pattern: str, behavior: str, invert: bool) -> None:
        self.split = pre_tokenizers.Split(Regex(pattern), behavior, invert)
        tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = self.split
        self.tree = json.loads(tokenizer.to_str())

    def check(self, texts: list[str]) -> None:
        """Compares the cuts of all texts."""
        pieces = [[piece for piece, _ in self.split.pre_tokenize_str(text)] for text in texts]
        words = dict.fromkeys(["<unk>", *(piece for each in pieces for piece in each)])
        vocab = {word: index for index, word in enumerate(words)}
        self.tree["model"]["vocab"] = vocab
        ours = Ours.from_json(json.dumps(self.tree))
        for text, expected in zip(texts, pieces, strict=True):
            ids = ours.encode(text)
            assert ids == [vocab[piece] for piece in expected], (self.tree["pre_tokenizer"], text)


def texts_of(rng: random.Random, count: int) -> list[str]:
    """Random texts that are not empty."""
    return [random_pattern_text(rng) + "a" for _ in range(count)]


@pytest.mark.parametrize("pattern", REAL)
def test_patterns_of_real_tokenizers(pattern: str, wiki_text: str) -> None:
    rng = random.Random(1)
    parts = [wiki_text[first : first + 1000] for first in range(0, 50_000, 1000)]
    Cutter(pattern, "isolated", False).check([*parts, *texts_of(rng, 300)])


def patterns(seed: int, count: int) -> Iterator[tuple[random.Random, str]]:
    """Random patterns that both sides take. The engine refuses some; what we refuse is counted."""
    rng = random.Random(seed)
    refused = taken = 0
    while taken < count:
        pattern = random_pattern(rng)
        try:
            Regex(pattern)
        except Exception:  # the library has no type of its own
            continue
        try:
            Cutter(pattern, "isolated", False).check([])
        except InvalidArgumentError:
            refused += 1
            continue
        taken += 1
        yield rng, pattern
    assert refused < taken


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns(seed: int) -> None:
    behaviors = ["isolated", "removed", "contiguous", "merged_with_previous", "merged_with_next"]
    for rng, pattern in patterns(seed, 60):
        cutter = Cutter(pattern, rng.choice(behaviors), rng.random() < 0.3)
        cutter.check(texts_of(rng, 15))


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_that_replace(seed: int) -> None:
    """Replace in a decoder behind Fuse: at once, and streamed in pieces."""
    for rng, pattern in patterns(100 + seed, 40):
        content = rng.choice(["", "X", "ab", "\u00e9"])
        replace = decoders.Replace(Regex(pattern), content)
        tokens = [*"abcd AB1_\n.", "ab", "\u00e9", " a", "b\n", "\u4e00", "'s"]
        tree = json.loads(
            Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)})).to_str()
        )
        fused = decoders.Sequence([decoders.Fuse(), replace])
        reference = Reference.from_str(json.dumps(tree))
        reference.decoder = fused
        ours = Ours.from_json(reference.to_str())
        for _ in range(15):
            ids = [rng.randrange(len(tokens)) for _ in range(rng.randint(0, 12))]
            expected = reference.decode(ids)
            decoder = StreamDecoder(ours)
            pieces = [*(decoder.push(i) for i in ids), decoder.flush()]
            assert ours.decode(ids) == expected == "".join(pieces), (pattern, content, ids)


def test_replace_behind_fuse_streams() -> None:
    """What no match can change is given out at once."""
    tokens = ["a", "-", "->", ">", "b"]
    for pattern in ("->", Regex("->"), Regex("-+>")):
        tokenizer = Tokenizer(models.WordLevel({t: i for i, t in enumerate(tokens)}))
        tokenizer.decoder = decoders.Sequence([decoders.Fuse(), decoders.Replace(pattern, "=")])
        decoder = StreamDecoder(Ours.from_json(tokenizer.to_str()))
        pieces = [decoder.push(tokens.index(t)) for t in ("a", "-", ">", "->", "-", "b", "-")]
        assert [*pieces, decoder.flush()] == ["a", "", "=", "=", "", "-b", "", "-"]


PROPERTIES = """L Lu M Nd Sc Z C Han Hiragana Katakana Hangul Latin Cyrillic Alpha Lower Upper Alnum
Punct Word Space Digit XDigit Cntrl Blank"""
POSIX = ["Alpha", "Lower", "Upper", "Alnum", "Punct", "Space", "Digit", "XDigit", "Cntrl", "Blank"]


@pytest.mark.parametrize("name", PROPERTIES.split())
def test_every_code_point_of_properties(name: str) -> None:
    points = [chr(c) for c in range(0x110000) if c >> 11 != 27]
    text = "".join(points)
    posix = [f"[[:{name.lower()}:]]+"] if name in POSIX else []
    for pattern in (rf"\p{{{name}}}+", *posix):
        Cutter(pattern, "isolated", False).check([text])


@pytest.mark.parametrize("letter", "swdhNO")
def test_every_code_point_of_escapes(letter: str) -> None:
    text = "".join(chr(c) for c in range(0x110000) if c >> 11 != 27)
    Cutter(rf"\{letter}+", "isolated", False).check([text])


def test_catastrophic_patterns_end() -> None:
    for pattern, text in [(r"(?:a|a)+b", "a" * 60), (r"a+a+a+a+b", "a" * 3000)]:
        tokenizer = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
        with pytest.raises(SlipstreamError, match="too many steps"):
            Ours.from_json(tokenizer.to_str()).encode(text)
