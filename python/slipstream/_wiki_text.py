"""English prose for evaluation: the Wikipedia excerpt (CC BY-SA) in the test data of a package."""

from __future__ import annotations

import bz2
import html
import re
from pathlib import Path

from slipstream._download import PackagedFile

FILE = PackagedFile(
    package="gensim",
    version="4.4.0",
    member_suffix="enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2",
    size=1_695_871,
    sha256="a53f4648dec40467ebdcbc7a1307eddb51fe6e28e9309f6ebde81ba0d04bea2d",
)

_MIN_CHARACTERS = 4000  # shorter articles are mostly lists and redirects
_TEMPLATE_DEPTH = 6
_END = (
    "See also",
    "References",
    "Notes",
    "External links",
    "Further reading",
    "Bibliography",
)
_FILE_LINK = re.compile(
    r"\[\[(?:File|Image|Category|[a-z-]{2,12}):[^\[\]]*(?:\[\[[^\[\]]*\]\][^\[\]]*)*\]\]"
)
_MARKUP_LINE = ("*", "#", "|", ":", ";", "!", "{", "}")


def convert(dump: Path, out: Path) -> None:
    """Writes `wiki.txt` (85 articles, 2.5 MB) into the existing folder `out`."""
    xml = bz2.decompress(dump.read_bytes()).decode("utf-8")
    articles = []
    for title, body in re.findall(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", xml, re.S):
        if body.lstrip().lower().startswith("#redirect"):
            continue
        text = plain_text(body)
        if len(text) > _MIN_CHARACTERS:
            articles.append(f"{title}\n\n{text}")
    (out / "wiki.txt").write_text("\n\n".join(articles), encoding="utf-8")


def plain_text(wikitext: str) -> str:
    """The prose of an article: no templates, tables, references, lists or closing sections."""
    text = html.unescape(html.unescape(wikitext))
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<ref[^>/]*/>", "", text)
    text = re.sub(r"<ref.*?</ref>", "", text, flags=re.S)
    # Templates, tables and links nest: strip from the innermost outwards.
    for _ in range(_TEMPLATE_DEPTH):
        text = re.sub(r"\{\{[^{}]*\}\}", "", text)
    for _ in range(3):
        text = re.sub(r"\{\|(?:(?!\{\|).)*?\|\}", "", text, flags=re.S)
    for _ in range(3):
        text = _FILE_LINK.sub("", text)
    text = re.sub(r"\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[https?://\S+ ([^\]]*)\]", r"\1", text)
    text = re.sub(r"\[https?://\S+\]", "", text)
    text = re.sub(r"'{2,}", "", text)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"^(=+)\s*(.*?)\s*=+$", r"\n\2\n", text, flags=re.M)
    text = re.split(rf"\n(?:{'|'.join(_END)})\n", text)[0]
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith(_MARKUP_LINE))
