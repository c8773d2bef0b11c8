"""Small tokenizers of every kind, trained here, give the ids and texts of Hugging Face."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from test_tokenizer_parity import Pair
from tokenizer_cases import every_low_character, odd_texts, python_sources
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as dec
from tokenizers import models as mod
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre
from tokenizers import processors as post
from tokenizers import trainers as tr

ROOT = Path(__file__).parents[2]


def table_script() -> ModuleType:
    """The script that asks the library about Unicode; it holds a small character map."""
    path = ROOT / "runtime_cpp/src/text/unicode_normalization.py"
    spec = importlib.util.spec_from_file_location("unicode_normalization", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(model: object, normalizer: object, pre_tokenizer: object, decoder: object) -> Tokenizer:
    """An untrained tokenizer of these parts."""
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


def unigram_metaspace(lines: list[str]) -> Tokenizer:
    charsmap = norm.Precompiled(table_script().one_key_charsmap())
    spaces = norm.Replace(Regex(" {2,}"), " ")
    normalizer = norm.Sequence([charsmap, norm.NFKC(), spaces])
    tokenizer = make(mod.Unigram(), normalizer, pre.Metaspace(), dec.Metaspace())
    special = ["<unk>", "<s>", "</s>"]
    trainer = tr.UnigramTrainer(
        vocab_size=1500, unk_token="<unk>", special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = post.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def unigram_first(lines: list[str]) -> Tokenizer:
    normalizer = norm.Sequence([norm.Strip(), norm.NFD(), norm.StripAccents()])
    cut = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(prepend_scheme="first")])
    back = dec.Sequence([dec.Metaspace(prepend_scheme="first"), dec.Fuse(), dec.Strip("e", 2, 1)])
    tokenizer = make(mod.Unigram(), normalizer, cut, back)
    trainer = tr.UnigramTrainer(
        vocab_size=1500, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def unigram_bytes(lines: list[str]) -> Tokenizer:
    normalizer = norm.Sequence([norm.Prepend("\u2581"), norm.Replace(" ", "\u2581")])
    back = [dec.Replace("\u2581", " "), dec.ByteFallback(), dec.Fuse(), dec.Strip(" ", 1, 0)]
    tokenizer = make(mod.Unigram(), normalizer, None, dec.Sequence(back))
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = tr.UnigramTrainer(
        vocab_size=1500, unk_token="<unk>", special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tree = json.loads(tokenizer.to_str())
    tree["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(tree))


def word_piece(lines: list[str]) -> Tokenizer:
    model = mod.WordPiece(unk_token="[UNK]")
    tokenizer = make(model, norm.BertNormalizer(), pre.BertPreTokenizer(), dec.WordPiece())
    special = ["[UNK]", "[CLS]", "[SEP]"]
    trainer = tr.WordPieceTrainer(vocab_size=2000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = post.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def word_piece_added(lines: list[str]) -> Tokenizer:
    """Added tokens that the normalizer changes; truncation and padding, which are not applied."""
    tokenizer = word_piece(lines)
    tokenizer.add_tokens(
        [
            AddedToken("\u00c9 t", normalized=True),
            AddedToken("foo", normalized=True, single_word=True, lstrip=True),
            AddedToken("<x>", normalized=False, rstrip=True),
        ]
    )
    tokenizer.enable_truncation(3, direction="left")
    tokenizer.enable_padding(length=4000)
    return tokenizer


def bpe_suffix(lines: list[str]) -> Tokenizer:
    normalizer = norm.Sequence([norm.NFKD(), norm.Lowercase()])
    cut = pre.Sequence([pre.Whitespace(), pre.Digits(individual_digits=True)])
    tokenizer = make(mod.BPE(unk_token="<unk>"), normalizer, cut, dec.BPEDecoder())
    trainer = tr.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<unk>"],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def bpe_prefix(lines: list[str]) -> Tokenizer:
    cut = pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("merged_with_previous")])
    tokenizer = make(mod.BPE(unk_token="<unk>", fuse_unk=True), None, cut, None)
    trainer = tr.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<unk>"],
        continuing_subword_prefix="##",
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def word_level(lines: list[str]) -> Tokenizer:
    cut = pre.Sequence([pre.CharDelimiterSplit("e"), pre.Whitespace()])
    tokenizer = make(mod.WordLevel(unk_token="<unk>"), norm.NFC(), cut, None)
    trainer = tr.WordLevelTrainer(vocab_size=2000, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def byte_level_as_text(lines: list[str]) -> Tokenizer:
    """ByteLevel with something behind it, in the pre-tokenizer and in the decoder."""
    mark = chr(0x120)
    cut = pre.Sequence([pre.ByteLevel(add_prefix_space=True), pre.Split(mark, "merged_with_next")])
    back = dec.Sequence([dec.ByteLevel(), dec.Replace("th", "TH"), dec.Strip(" ", 1, 0)])
    tokenizer = make(mod.BPE(), norm.NFD(), cut, back)
    alphabet = pre.ByteLevel.alphabet()
    trainer = tr.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = post.RobertaProcessing(("a", 65), ("b", 66))
    return tokenizer


def byte_level_normalizer(lines: list[str]) -> Tokenizer:
    normalizer = norm.Sequence([norm.NFKC(), norm.ByteLevel()])
    cut = pre.Split(Regex(chr(0x120) + "?[A-Za-z]+"), "isolated")
    tokenizer = make(mod.BPE(), normalizer, cut, dec.ByteLevel())
    alphabet = pre.ByteLevel.alphabet()
    trainer = tr.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


KINDS = [
    unigram_metaspace,
    unigram_first,
    unigram_bytes,
    word_piece,
    word_piece_added,
    bpe_suffix,
    bpe_prefix,
    word_level,
    byte_level_as_text,
    byte_level_normalizer,
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kinds(kind: Callable[[list[str]], Tokenizer], wiki_text: str) -> None:
    lines = [line for line in wiki_text[:200_000].split("\n") if line]
    pair = Pair(kind(lines).to_str())
    rng = random.Random(7)
    texts = [wiki_text[first : first + 5000] for first in range(0, 40_000, 5000)]
    for text in (*texts, *python_sources(4), *every_low_character()):
        pair.check_text(text)
    for text in odd_texts(rng, pair.specials()):
        pair.check_ids(pair.check_text(text))
    pair.check_random_ids(rng, 30)
