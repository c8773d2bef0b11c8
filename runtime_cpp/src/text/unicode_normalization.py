"""What the normalizers of the `tokenizers` wheel do to single code points, as tables.

Decompositions, compositions, combining classes, lower case and the flags of BERT's cleaning are
asked of the library, code point by code point, for the reason that generate_unicode_tables.py
gives. Hangul syllables are left out: they follow from arithmetic.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Bits of a table entry, as in unicode.h.
FLAGS = {
    "BERT_REMOVED": 1 << 11,
    "BERT_SPACE": 1 << 12,
    "MARK": 1 << 13,
    "NONSPACING": 1 << 14,
    "CHINESE": 1 << 15,
    "EXTENDS": 1 << 16,
    "PREPENDS": 1 << 17,
    "NFC_UNSAFE": 1 << 18,
    "CANONICAL": 1 << 19,
    "COMPATIBLE": 1 << 20,
    "LOWER": 1 << 21,
    "COMBINING": 1 << 22,
}

# Starts no composition, is no white space to any rule that is asked, and stays as it is.
STOP = "\n"


def is_hangul(code_point: int) -> bool:
    """Whether the code point is a precomposed syllable."""
    return 0xAC00 <= code_point <= 0xD7A3


def one_key_charsmap() -> bytes:
    """A SentencePiece character map that replaces "x" by "Q": a double array with one key."""
    units = [0] * 768
    base, key, leaf = 256, ord("x"), 1
    units[0] = base << 10
    units[base ^ key] = leaf << 10 | 1 << 8 | key
    units[base ^ key ^ leaf] = 1 << 31
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + b"Q\0"


class Normalization:
    """All tables; `flags` has the bits of the code points that have any."""

    def __init__(self, api: Any, code_points: Sequence[int]) -> None:
        self.api = api
        self.code_points = [cp for cp in code_points if chr(cp) != STOP]
        self.flags: dict[int, int] = {}
        normal = api.normalizers
        self.nfd = normal.NFD().normalize_str
        self.nfc = normal.NFC().normalize_str
        self.canonical = self.changes(self.nfd)
        self.compatible = self.changes(normal.NFKD().normalize_str)
        self.lower = self.changes(normal.Lowercase().normalize_str)
        self.classes = self.combining_classes()
        self.pairs = self.compositions()
        for name, members in (
            ("CANONICAL", self.canonical),
            ("COMPATIBLE", self.compatible),
            ("LOWER", self.lower),
            ("COMBINING", self.classes),
        ):
            self.mark(name, members)
        self.mark_cleaning()
        self.mark_graphemes()
        self.mark_composing()
        self.check()

    def mark(self, name: str, members: Iterable[int]) -> None:
        """Sets a flag."""
        for cp in members:
            self.flags[cp] = self.flags.get(cp, 0) | FLAGS[name]

    def ask(
        self, apply: Callable[[str], str], before: str = "", behind: str = "", skip: str = ""
    ) -> list[tuple[int, str]]:
        """What becomes of each code point, put between `before` and `behind`."""
        asked = [cp for cp in self.code_points if chr(cp) not in skip]
        answers: list[tuple[int, str]] = []
        for first in range(0, len(asked), 65536):
            part = asked[first : first + 65536]
            lines = apply("".join(f"{before}{chr(cp)}{behind}{STOP}" for cp in part)).split(STOP)
            answers += zip(part, lines[:-1], strict=True)
        return answers

    def changes(self, apply: Callable[[str], str]) -> dict[int, str]:
        """The code points that a normalizer changes."""
        return {cp: to for cp, to in self.ask(apply) if to != chr(cp) and not is_hangul(cp)}

    def combining_classes(self) -> dict[int, int]:
        """Code points that are not starters, with a class each: 1, 2, ... in the order of theirs.

        Marks of different classes behind a letter are put in order, which shows the order of the
        classes. U+0334 has the lowest one and U+0345 the highest.
        """
        marks = [
            cp
            for cp, to in self.ask(self.nfd, before="a\u0345")
            if to == f"a{chr(cp)}\u0345" and chr(cp) != "\u0345" and cp not in self.canonical
        ]
        marks += [
            cp
            for cp, to in self.ask(self.nfd, before="a", behind="\u0334")
            if to == f"a\u0334{chr(cp)}" and chr(cp) != "\u0334" and cp not in self.canonical
        ]

        class Key:
            def __init__(self, mark: str, nfd: Callable[[str], str]) -> None:
                self.mark, self.nfd = mark, nfd

            def __lt__(self, other: Key) -> bool:
                mine, its = self.mark, other.mark
                return mine != its and self.nfd(f"a{its}{mine}") == f"a{mine}{its}"

        order: list[Key] = []
        members: list[list[int]] = []
        for cp in sorted(set(marks)):
            key = Key(chr(cp), self.nfd)
            place = bisect_left(order, key)
            if place < len(order) and not key < order[place]:
                members[place].append(cp)
            else:
                order.insert(place, key)
                members.insert(place, [cp])
        return {cp: rank for rank, group in enumerate(members, 1) for cp in group}

    def compositions(self) -> dict[tuple[int, int], int]:
        """Pairs of code points and what they compose to."""
        pairs: dict[tuple[int, int], int] = {}
        for cp, parts in self.canonical.items():
            if len(parts) < 2 or self.nfc(parts) != chr(cp):
                continue
            first = self.nfc(parts[:-1])
            if len(first) == 1:
                pairs[ord(first), ord(parts[-1])] = cp
        return pairs

    def mark_cleaning(self) -> None:
        """Flags of BertNormalizer and StripAccents."""
        normal = self.api.normalizers

        def bert(**only: bool) -> Callable[[str], str]:
            off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False}
            apply: Callable[[str], str] = normal.BertNormalizer(
                **{**off, "lowercase": False, **only}
            ).normalize_str
            # Cleaning makes the stop a space: put it back.
            return lambda text: "\n".join(apply(line) for line in text.split("\n"))

        for cp, to in self.ask(bert(clean_text=True)):
            if to == "":
                self.mark("BERT_REMOVED", [cp])
            elif to == " " and cp != 0x20:
                self.mark("BERT_SPACE", [cp])
        self.mark("BERT_SPACE", [0x0A])
        self.mark(
            "MARK", (cp for cp, to in self.ask(normal.StripAccents().normalize_str) if not to)
        )
        stripped = self.ask(bert(strip_accents=True))
        self.mark("NONSPACING", (cp for cp, to in stripped if not to))
        chinese = self.ask(bert(handle_chinese_chars=True))
        self.mark("CHINESE", (cp for cp, to in chinese if len(to) == 3))

    def mark_graphemes(self) -> None:
        """Flags of grapheme clusters, which Precompiled looks up as a whole.

        Its map has only "x". A cluster of "x" and a code point behind it starts with the key, and
        the whole cluster is replaced.
        """
        apply = self.api.normalizers.Precompiled(one_key_charsmap()).normalize_str
        self.mark("EXTENDS", (cp for cp, to in self.ask(apply, before="x", skip="x") if to == "Q"))
        # In front of "x" and a mark, what prepends is part of that cluster too.
        together = self.ask(apply, behind="x\u0301", skip="x")
        self.mark("PREPENDS", (cp for cp, to in together if to == f"{chr(cp)}Q\u0301"))

    def mark_composing(self) -> None:
        """Text without these is its own NFC."""
        self.mark("NFC_UNSAFE", self.classes)
        self.mark("NFC_UNSAFE", (second for _, second in self.pairs))
        self.mark("NFC_UNSAFE", range(0x1161, 0x1176))
        self.mark("NFC_UNSAFE", range(0x11A8, 0x11C3))
        self.mark("NFC_UNSAFE", (cp for cp, to in self.ask(self.nfc) if to != chr(cp)))

    def check(self) -> None:
        """Facts that hold in every Unicode version."""
        sizes = (len(self.canonical), len(self.compatible), len(self.classes), len(self.pairs))
        right = (
            self.canonical[0xE9] == "e\u0301"
            and self.compatible[0xFB01] == "fi"
            and self.lower[0x130] == "i\u0307"
            and self.pairs[0x65, 0x301] == 0xE9
            and self.classes[0x334] == 1
            and self.classes[0x345] == max(self.classes.values())
            and self.flags[0x301] & FLAGS["EXTENDS"]
            and self.flags[0x600] & FLAGS["PREPENDS"]
            and self.flags[0x4E00] & FLAGS["CHINESE"]
        )
        if not right or min(sizes) < 500:
            raise SystemExit(f"the normalizers of tokenizers have changed: {sizes}")

    def tables(self) -> dict[str, list[int]]:
        """Arrays by their names in C++: sorted keys, and for each where its text begins and ends
        in one pool."""
        pool: list[int] = []
        out: dict[str, list[int]] = {}
        for name, table in (
            ("Canonical", self.canonical),
            ("Compatible", self.compatible),
            ("Lower", self.lower),
        ):
            out[f"k{name}Keys"] = sorted(table)
            spans = []
            for cp in sorted(table):
                spans.append(len(pool) << 8 | len(table[cp]))
                pool += map(ord, table[cp])
            out[f"k{name}Spans"] = spans
        out["kPool"] = pool
        out["kCombiningKeys"] = sorted(self.classes)
        out["kCombiningClasses"] = [self.classes[cp] for cp in sorted(self.classes)]
        ordered = sorted(self.pairs)
        out["kPairFirst"] = [first for first, _ in ordered]
        out["kPairSecond"] = [second for _, second in ordered]
        out["kPairComposed"] = [self.pairs[pair] for pair in ordered]
        return out
