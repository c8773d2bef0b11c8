"""Reading checkpoints: safetensors in row blocks, float conversion, text files."""

from __future__ import annotations

from slipstream.builder.checkpoint.folder import Checkpoint, CheckpointTensor
from slipstream.builder.checkpoint.text_files import TextFiles, read_text_files

__all__ = ["Checkpoint", "CheckpointTensor", "TextFiles", "read_text_files"]
