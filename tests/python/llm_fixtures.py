"""A tiny random engine with a tokenizer, for tests of the faces that need no sensible text."""

from __future__ import annotations

import os
from pathlib import Path

from tiny_models import TinyConfig, make_checkpoint

from slipstream.engine_path import resolve_engine

TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


def make_tiny_checkpoint(folder: Path, **changes: object) -> Path:
    """A checkpoint of about 100 KB: 265 ids, 8192 positions, a chat template."""
    config = TinyConfig(vocab=265, tokenizer=True, max_positions=8192, **changes)  # type: ignore[arg-type]
    make_checkpoint(folder, config)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def build_tiny_engine(folder: Path) -> str:
    """Builds the tiny engine below `folder`, through the cache that LLM(folder) uses."""
    checkpoint = make_tiny_checkpoint(folder / "tiny")
    before = os.environ.get("SLIPSTREAM_CACHE")
    os.environ["SLIPSTREAM_CACHE"] = str(folder / "cache")
    try:
        return resolve_engine(checkpoint, log=lambda line: None)
    finally:
        if before is None:
            del os.environ["SLIPSTREAM_CACHE"]
        else:
            os.environ["SLIPSTREAM_CACHE"] = before
