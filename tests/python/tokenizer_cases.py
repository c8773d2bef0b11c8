"""Texts and small random tokenizers for the comparison with Hugging Face `tokenizers`."""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

Json = dict[str, Any]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_MARKED = """\U0001f3fd \U0001f468 \u200d \U0001f469 \u00e9 e\u0301 \ufe0f \u2764 \U0001f1e9
\U0001f1ea
a 's 'S '\u017f 1 \u0663 \u00bd \u2167 \u4e00 \uff71 \u00df \u01c5 \u02b0 \u0903 \ufb05 -"""
_GRAPHEMES = [*_MARKED.split(), " ", "\n", "\t", "\r\n", "\x00", "\x1b", "\x7f", "\u0085"]
_KNOWN = "a b c ab abc s t e 1 23 _ cat 's <s> </s> <|x|> <|xy|> <|"
_SPACES = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "x", "0", "."]


def random_scalars(rng: random.Random, count: int) -> str:
    """Code points of all planes, evenly drawn: most of them unassigned."""
    return "".join(chr(c) for c in (rng.randrange(0x110000) for _ in range(count)) if c >> 11 != 27)


def every_low_character() -> Iterator[str]:
    """Every code point of the first two planes and the tags, alone, in a word and after a space."""
    points = [c for c in (*range(0x20000), *range(0xE0000, 0xE0200)) if c >> 11 != 27]
    for shape in ("{}", "a{}b", " {}A", "'{} 1"):
        for first in range(0, len(points), 16384):
            yield "".join(shape.format(chr(c)) for c in points[first : first + 16384])


def python_sources(files: int) -> Iterator[str]:
    """Code: the first 20,000 characters of files of the standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:files]:
        yield path.read_text(encoding="utf-8", errors="replace")[:20000]


def odd_texts(rng: random.Random, specials: list[str]) -> Iterator[str]:
    """Everything but prose and code: Unicode, digits, white space, special tokens, long runs."""
    yield ""
    for _ in range(20):
        yield random_scalars(rng, 2000)
    for pool in (_GRAPHEMES, [*specials, "a", " ", "b c", "\n", "<", "|", ">", "1"]):
        for _ in range(150):
            yield "".join(rng.choice(pool) for _ in range(rng.randint(1, 60)))
    for _ in range(100):
        yield "".join(rng.choice(_SPACES) * rng.randint(1, 9) for _ in range(rng.randint(1, 30)))
        yield str(rng.randrange(10 ** rng.randint(1, 40))) + f" {rng.random()} {rng.randrange(99)}%"
    for char in ("a", " ", "1", "\n", "\u00e9", "\U0001f642", "\u0301", "ab", "<|", "-", "="):
        yield char * 10000


def random_text(rng: random.Random) -> str:
    """A short text of the characters that the random tokenizers know and a few that they do not."""
    pool = [
        *_KNOWN.split(),
        " ",
        "  ",
        "\n",
        "\t",
        "\u00e9",
        "e\u0301",
        "\u0663",
        "\u017f",
        "\u3000",
        "\U0001f642",
    ]
    return "".join(rng.choice(pool) for _ in range(rng.randint(0, 25))) * rng.choice([1] * 9 + [20])


def random_tokenizer(rng: random.Random) -> Json:
    """A tokenizer.json with a random choice of everything that Slipstream supports."""
    model = _random_model(rng)
    added = _random_added_tokens(rng, model["vocab"])
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": rng.random() < 0.4,
        "trim_offsets": True,
        "use_regex": rng.random() < 0.5,
    }
    stages = [_random_stage(rng) for _ in range(rng.randint(0, 3))]
    decoder: Json = dict(byte_level)
    if rng.random() < 0.3:
        decoder = {"type": "Sequence", "decoders": [decoder, {"type": "Fuse"}]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": rng.choice([None, {"type": "Sequence", "normalizers": []}]),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*stages, byte_level]},
        "post_processor": _random_post_processor(rng, added, byte_level),
        "decoder": decoder,
        "model": model,
    }


def _random_model(rng: random.Random) -> Json:
    share = rng.choice([1, 1, 0.97, 0.8])  # below 1, some bytes have no token
    vocab = [c for c in sorted(ByteLevel.alphabet()) if rng.random() < share]
    letters = [c for c in vocab if c in "abcste\u01201<|>\u00c3\u010a\u0120'"] or vocab[:3]
    merges = []
    for _ in range(rng.randint(0, 60)):
        left, right = (rng.choice([v for v in vocab if v[0] in letters]) for _ in range(2))
        merges.append([left, right])
        if left + right not in vocab:
            vocab.append(left + right)
    rng.shuffle(merges)
    if rng.random() < 0.5:
        vocab += [x for x in ("abc", "ab", "\u0120a", "<unk>", "\u4e00") if x not in vocab]
    ids = list(range(len(vocab)))
    if rng.random() < 0.5:
        rng.shuffle(ids)
    return {
        "type": "BPE",
        "dropout": rng.choice([None, 0.0]),
        "unk_token": rng.choice([None, vocab[0], vocab[-1]]),
        "continuing_subword_prefix": rng.choice([None, ""]),
        "end_of_word_suffix": None,
        "fuse_unk": rng.random() < 0.5,
        "byte_fallback": False,
        "ignore_merges": rng.random() < 0.5,
        "vocab": dict(zip(vocab, ids, strict=True)),
        "merges": [" ".join(m) for m in merges] if rng.random() < 0.5 else merges,
    }


def _random_stage(rng: random.Random) -> Json:
    if rng.random() < 0.3:
        return {"type": "Digits", "individual_digits": rng.random() < 0.5}
    literals = [{"String": x} for x in ("a", "ab", " ")]
    regexes = [{"Regex": x} for x in (r"\s+", r"\p{L}{1,2}", r"a(?=b)|1+", r"\p{N}", GPT2)]
    behaviors = ["Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"]
    return {
        "type": "Split",
        "pattern": rng.choice([*literals, *regexes]),
        "behavior": rng.choice(behaviors),
        "invert": rng.random() < 0.4,
    }


def _random_added_tokens(rng: random.Random, vocab: dict[str, int]) -> list[Json]:
    contents = ["<s>", "</s>", "<|x|>", "<|xy|>", "a b", "ab", "\u00e9", "<", "cat", "1", "\n"]
    added: list[Json] = []
    next_id = len(vocab)
    for content in rng.sample(contents, rng.randint(0, 8)):
        token_id = vocab.get(content, next_id)
        next_id += token_id == next_id
        flags = {k: rng.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "normalized")}
        added.append({"id": token_id, "content": content, **flags, "special": rng.random() < 0.5})
    return added


def _random_post_processor(rng: random.Random, added: list[Json], byte_level: Json) -> Json | None:
    if not added or rng.random() < 0.5:
        return rng.choice([None, byte_level])
    begin, end = rng.choice(added), rng.choice(added)
    processor = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "B", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "E", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {
            "B": {"id": "B", "ids": [begin["id"]], "tokens": [begin["content"]]},
            "E": {"id": "E", "ids": [end["id"]], "tokens": [end["content"]]},
        },
    }
    if rng.random() < 0.5:
        return {"type": "Sequence", "processors": [byte_level, processor]}
    return processor


_ATOMS = r"""a b c é 一 \. ' _ 1 . \s \S \d \w \W \D \n \p{L} \p{Lu} \p{N} \P{L} \p{Han} \p{^L}
[a-c] [^a] [\s\d] [^\s\w] [A-Z_'] [[:alpha:]] [[:^alpha:]] [[:punct:]] [a-z&&[^b]] [^(\s|[.,])]
[\p{L}\p{M}] [^\p{L}] \x61 \u4e00 \x{e9} [a-b-c] [-a] [a-] \h \N \O"""
_PATTERN_ATOMS = [*_ATOMS.split(), " "]
_ANCHORS = r"^ $ \b \B \A \z \Z (?=a) (?!b) (?<=a) (?<!b) (?<=\w) (?=\s|$) (?!\S)"
_PATTERN_ANCHORS = _ANCHORS.split()
_QUANTIFIERS = "* + ? *? +? ?? *+ ++ ?+ {2} {1,2} {1,} {,2} {1,2}? {2,}?"
_PATTERN_QUANTIFIERS = _QUANTIFIERS.split()


def random_pattern(rng: random.Random, depth: int = 0) -> str:
    """A regular expression of what tokenizer files use and a little more; may be wrong."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 3)):
        draw = rng.random()
        if draw < 0.2 and depth < 3:
            opening = rng.choice(["(?:", "(", "(?>", "(?i:", "(?m:", "(?=", "(?!", "(?<=", "(?<!"])
            part = f"{opening}{random_pattern(rng, depth + 1)})"
        elif draw < 0.3:
            part = rng.choice(_PATTERN_ANCHORS)
        else:
            part = rng.choice(_PATTERN_ATOMS)
        if rng.random() < 0.4:
            part += rng.choice(_PATTERN_QUANTIFIERS)
        parts.append(part)
    text = "".join(parts)
    return f"{text}|{random_pattern(rng, depth + 1)}" if rng.random() < 0.3 and depth < 3 else text


def random_pattern_text(rng: random.Random) -> str:
    """A short text of the characters that random patterns name."""
    pool = [
        *"aaabbcdABS19_.,'( |",
        "\n",
        "\r\n",
        "\u00e9",
        "\u4e00",
        "\u0301",
        "\u017f",
        "\U0001f642",
    ]
    return "".join(rng.choice(pool) for _ in range(rng.randint(0, 20)))
