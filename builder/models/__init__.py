"""Model families: a checkpoint's config.json becomes a ModelSpec, and a ModelSpec a portable graph.

spec = parse_config(json.load(open("config.json")))
report = check_tensors(spec, {name: shape, ...})
graph = build_graph(fix_length(spec, max_seq_len)[0])
"""

from __future__ import annotations

from slipstream.builder.models.decoder import build_graph
from slipstream.builder.models.registry import architectures, parse_config
from slipstream.builder.models.rope import fix_length
from slipstream.builder.models.spec import ModelSpec, RopeSpec
from slipstream.builder.models.tensors import TensorReport, check_tensors, expected_tensors

__all__ = [
    "ModelSpec",
    "RopeSpec",
    "TensorReport",
    "architectures",
    "build_graph",
    "check_tensors",
    "expected_tensors",
    "fix_length",
    "parse_config",
]
