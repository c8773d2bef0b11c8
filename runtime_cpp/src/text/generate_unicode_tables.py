"""Writes the Unicode tables of the text room, as seen by the pinned `tokenizers` wheel.

Token ids depend on which code points count as letters, numbers, marks or white space, and that
differs between Unicode versions. So the tables are not taken from a Unicode database but asked of
the library whose ids we must reproduce: its regular expression engine (Split), its
`char::is_numeric` (Digits), its word and space rules for added tokens, and its normalizers
(unicode_normalization.py, beside this file).

    python generate_unicode_tables.py OUTPUT.inc
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from unicode_normalization import Normalization

# CMake reads this line, and a test holds the pins of pyproject.toml to it.
TOKENIZERS_VERSION = "0.23.3"

# Order = value of the general category in the low five bits of a table entry, as in unicode.h.
_LETTERS_TO_NUMBERS = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No"
_PUNCTUATION_TO_OTHERS = "Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co"
CATEGORIES = [*_LETTERS_TO_NUMBERS.split(), *_PUNCTUATION_TO_OTHERS.split()]
SPACE, NUMERIC, WORD, RUST_SPACE = 1 << 5, 1 << 6, 1 << 7, 1 << 8
ENGINE_WORD, PUNCTUATION = 1 << 9, 1 << 10
# The flags of unicode_normalization.FLAGS follow from bit 11 on, then these, as in unicode.h.
SCRIPTS = ["Han", "Hiragana", "Katakana", "Hangul", "Latin", "Cyrillic"]
PROPERTIES = [*SCRIPTS, "Alphabetic", "Lowercase", "Uppercase"]
PROPERTY = {name: 1 << (23 + index) for index, name in enumerate(PROPERTIES)}

BLOCK_BITS = 7
LIMIT = 0x110000


def scalar_values() -> list[int]:
    """Every code point that a string can hold: all but the surrogates."""
    return [cp for cp in range(LIMIT) if not 0xD800 <= cp < 0xE000]


def matched(api: Any, pattern: str, code_points: list[int], text: str) -> Iterator[int]:
    """The code points of `text` (spelled by `code_points`) that `pattern` matches."""
    split = api.pre_tokenizers.Split(api.Regex(f"{pattern}+"), "removed", invert=True)
    for _, (begin, end) in split.pre_tokenize_str(text):
        yield from code_points[begin:end]


def numeric(api: Any, code_points: list[int], text: str) -> Iterator[int]:
    """The code points that Rust's `char::is_numeric` accepts.

    Runs of numeric and other code points alternate; the first one (controls) is not numeric.
    """
    splits = api.pre_tokenizers.Digits(individual_digits=False).pre_tokenize_str(text)
    for _, (begin, end) in splits[1::2]:
        yield from code_points[begin:end]


def added_token_classes(api: Any, code_points: list[int]) -> tuple[list[int], list[int]]:
    """Word and space code points by the rules of added tokens with `single_word` and `lstrip`.

    Before every code point stands a stop, after it the added token: the token is found unless the
    code point belongs to a word, and swallows the code point if that is white space.
    """
    stop, marker = ".", "|"
    tokenizer = api.Tokenizer(api.models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([api.AddedToken(marker, single_word=True, lstrip=True, normalized=False)])
    asked = [cp for cp in code_points if chr(cp) not in (stop, marker)]
    word: list[int] = []
    space: list[int] = []
    for first in range(0, len(asked), 65536):
        part = asked[first : first + 65536]
        encoding = tokenizer.encode("".join(f"{stop}{chr(cp)}{marker}" for cp in part) + stop)
        marker_id = tokenizer.token_to_id(marker)
        # end of the token -> its start, in code points
        starts = {
            end: begin
            for (begin, end), token in zip(encoding.offsets, encoding.ids, strict=True)
            if token == marker_id
        }
        for index, cp in enumerate(part):
            begin = starts.get(3 * index + 3)
            if begin is None:
                word.append(cp)
            elif begin == 3 * index + 1:
                space.append(cp)
    return word, space


def punctuation(api: Any, code_points: list[int], text: str) -> Iterator[int]:
    """The code points that the Punctuation pre-tokenizer cuts at; runs alternate, as above."""
    splits = api.pre_tokenizers.Punctuation("contiguous").pre_tokenize_str(text)
    for _, (begin, end) in splits[1::2]:
        yield from code_points[begin:end]


def build_entries(api: Any) -> list[int]:
    """One entry per code point: general category and flags."""
    entries = [CATEGORIES.index("Cn")] * LIMIT
    for cp in range(0xD800, 0xE000):
        entries[cp] = CATEGORIES.index("Cs")

    # Most code points are unassigned or private: ask for these first, for the rest only among
    # what is left.
    code_points = scalar_values()
    text = "".join(map(chr, code_points))
    left = set(code_points)
    for name in ("Cn", "Co"):
        for cp in matched(api, rf"\p{{{name}}}", code_points, text):
            entries[cp] = CATEGORIES.index(name)
            left.discard(cp)
    assigned = sorted(left)
    whole = text
    text = "".join(map(chr, assigned))
    for value, name in enumerate(CATEGORIES):
        if name in ("Cn", "Co", "Cs"):
            continue
        for cp in matched(api, rf"\p{{{name}}}", assigned, text):
            entries[cp] = value
            left.discard(cp)
    if left:
        raise SystemExit(
            f"no general category for U+{min(left):04X}: tokenizers changed its engine"
        )

    for cp in matched(api, r"\s", assigned, text):
        entries[cp] |= SPACE
    # These rules are not the engine's, and may know code points that it does not.
    for cp in numeric(api, code_points, whole):
        entries[cp] |= NUMERIC
    for cp in matched(api, r"\w", assigned, text):
        entries[cp] |= ENGINE_WORD
    for cp in punctuation(api, code_points, whole):
        entries[cp] |= PUNCTUATION
    for name, flag in PROPERTY.items():
        for cp in matched(api, rf"\p{{{name}}}", assigned, text):
            entries[cp] |= flag
    word, space = added_token_classes(api, code_points)
    for cp in word:
        entries[cp] |= WORD
    for cp in space:
        entries[cp] |= RUST_SPACE
    check_entries(entries)
    return entries


def check_entries(entries: list[int]) -> None:
    """Facts that hold in every Unicode version: a changed library must not give silent nonsense."""
    lu, nd = CATEGORIES.index("Lu"), CATEGORIES.index("Nd")
    alphabetic = PROPERTY["Alphabetic"]
    facts = {
        "A": lu | WORD | ENGINE_WORD | alphabetic | PROPERTY["Latin"] | PROPERTY["Uppercase"],
        "7": nd | NUMERIC | WORD | ENGINE_WORD,
        " ": CATEGORIES.index("Zs") | SPACE | RUST_SPACE,
        "\n": CATEGORIES.index("Cc") | SPACE | RUST_SPACE,
        "_": CATEGORIES.index("Pc") | WORD | ENGINE_WORD | PUNCTUATION,
        "\u4e00": CATEGORIES.index("Lo") | WORD | ENGINE_WORD | alphabetic | PROPERTY["Han"],
        "\u0301": CATEGORIES.index("Mn") | WORD | ENGINE_WORD,
        "\u2167": CATEGORIES.index("Nl")
        | (NUMERIC | WORD | ENGINE_WORD | alphabetic | PROPERTY["Latin"] | PROPERTY["Uppercase"]),
    }
    for char, expected in facts.items():
        if entries[ord(char)] != expected:
            raise SystemExit(
                f"U+{ord(char):04X} has entry {entries[ord(char)]:#x}, expected {expected:#x}: "
                "tokenizers changed its engine"
            )


def render(entries: list[int], normalization: Normalization, version: str) -> str:
    """A two-stage table in C++ (the block of a code point, then its entry in the block), and the
    tables of the normalizers."""
    size = 1 << BLOCK_BITS
    blocks: dict[tuple[int, ...], int] = {}
    stage1 = [
        blocks.setdefault(tuple(entries[first : first + size]), len(blocks))
        for first in range(0, LIMIT, size)
    ]
    stage2 = [entry for block in blocks for entry in block]

    def array(kind: str, name: str, values: list[int]) -> str:
        lines = [
            ",".join(map(str, values[first : first + 32])) for first in range(0, len(values), 32)
        ]
        return f"constexpr {kind} {name}[{len(values)}] = {{\n" + ",\n".join(lines) + "};\n"

    return (
        f"// Generated by generate_unicode_tables.py from tokenizers {version}. Do not edit.\n"
        f'constexpr char kTokenizersVersion[] = "{version}";\n'
        f"constexpr int kBlockBits = {BLOCK_BITS};\n"
        + array("uint16_t", "kStage1", stage1)
        + array("uint32_t", "kStage2", stage2)
        + "".join(
            array("uint32_t", name, values) for name, values in normalization.tables().items()
        )
    )


def main() -> int:
    """Command line: the output file. Exit code 2 when the wheel is missing or another version."""
    parser = argparse.ArgumentParser(description="Generate the Unicode tables of the text room.")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    fix = (
        f"Run `{sys.executable} -m pip install tokenizers=={TOKENIZERS_VERSION}`, or give CMake "
        "-DSLIPSTREAM_UNICODE_TABLES=FILE with tables generated elsewhere."
    )
    try:
        import tokenizers as api
    except ImportError as error:
        print(f"error: {sys.executable} cannot import tokenizers ({error}). {fix}", file=sys.stderr)
        return 2
    if api.__version__ != TOKENIZERS_VERSION:
        print(
            f"error: the Unicode tables need tokenizers {TOKENIZERS_VERSION}, but {sys.executable} "
            f"has {api.__version__}. {fix}",
            file=sys.stderr,
        )
        return 2
    entries = build_entries(api)
    normalization = Normalization(api, scalar_values())
    for cp, flags in normalization.flags.items():
        entries[cp] |= flags
    text = render(entries, normalization, api.__version__)
    temporary = arguments.output.with_suffix(".tmp")
    temporary.write_text(text, encoding="ascii")
    temporary.replace(arguments.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
