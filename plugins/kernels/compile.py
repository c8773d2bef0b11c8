"""Ahead-of-time compilation of the GPU kernels to cubins: needs `triton`, neither a GPU nor a
driver.

    python -m slipstream.kernels.compile --sm 89,90 --head-dim 64 --heads 9 --kv-heads 3 -o cubins/

writes one `.cubin` and one `.json` (entry name, shared memory, warps, argument order) per compute
capability. What this proves without a GPU is that ptxas accepts the kernel for that capability; it
never ran there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SUPPORTED_SMS = (80, 86, 89, 90, 100, 120)
DTYPES = ("fp16", "bf16")
INSTALL_HINT = "pip install 'slipstream[kernels]'"


@dataclass(frozen=True)
class AttentionShape:
    """What a paged-attention kernel is specialised for. dtype is that of q, the KV pool and the
    output."""

    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bf16"
    block_tokens: int = 32

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is '{self.dtype}'; the kernel supports {', '.join(DTYPES)}")
        if self.kv_heads < 1 or self.heads < 1 or self.heads % self.kv_heads:
            raise ValueError(
                f"heads = {self.heads} must be a positive multiple of kv_heads = {self.kv_heads}"
            )
        if not 1 <= self.head_dim <= 256:
            raise ValueError(f"head_dim is {self.head_dim}; the kernel supports 1 to 256")
        if self.block_tokens < 16 or self.block_tokens & (self.block_tokens - 1):
            raise ValueError(
                f"block_tokens is {self.block_tokens}; it must be a power of two of at least 16"
            )

    def constexprs(self) -> dict[str, int]:
        group = self.heads // self.kv_heads
        return {
            "KV_HEADS": self.kv_heads,
            "GROUP": group,
            "GROUP_PAD": max(16, _next_power_of_two(group)),
            "HEAD_DIM": self.head_dim,
            "HEAD_DIM_PAD": max(16, _next_power_of_two(self.head_dim)),
            "BLOCK_TOKENS": self.block_tokens,
        }


@dataclass(frozen=True)
class Cubin:
    """A compiled kernel and what a launcher needs: grid is (sequences, kv_heads), block is 32 *
    num_warps threads.

    `arguments` lists the kernel parameters in order, without Triton's two trailing scratch
    pointers.
    """

    entry: str
    sm: int
    image: bytes
    shared_bytes: int
    num_warps: int
    global_scratch_bytes: int
    arguments: tuple[str, ...]

    def metadata(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["image"]
        return fields


@dataclass(frozen=True)
class Resources:
    """Per-thread registers and local memory (spills), per-block shared memory, from `cuobjdump`."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    local_bytes: int


def _next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def compile_paged_decode_attention(
    shape: AttentionShape, sm: int, *, num_warps: int = 4, num_stages: int = 2
) -> Cubin:
    """Compile the kernel for one compute capability (e.g. 89). ValueError for an unknown one."""
    if sm not in SUPPORTED_SMS:
        known = ", ".join(str(s) for s in SUPPORTED_SMS)
        raise ValueError(f"sm {sm} is not supported; choose from {known}")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from slipstream.kernels.paged_attention import paged_decode_attention as kernel

    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("TRITON_INTERPRET=1 replaces the compiler: unset it to compile cubins")
    pointer = f"*{shape.dtype}"
    types = {
        "out_ptr": pointer,
        "q_ptr": pointer,
        "k_pool_ptr": pointer,
        "v_pool_ptr": pointer,
        "block_table_ptr": "*i32",
        "context_len_ptr": "*i32",
        "scale_log2": "fp32",
        "q_stride_seq": "i32",
        "out_stride_seq": "i32",
        "table_stride": "i32",
        "window": "i32",
    }
    constexprs = shape.constexprs()
    # Device allocations are 256-byte aligned: 16-byte vector loads may be assumed for the big
    # arrays.
    aligned = [["tt.divisibility", 16]]
    attrs: dict[tuple[int, ...], list[list[Any]]] = {(i,): aligned for i in range(4)}
    source = ASTSource(
        fn=kernel,
        signature={**types, **dict.fromkeys(constexprs, "constexpr")},
        constexprs=constexprs,
        attrs=attrs,
    )
    compiled = triton.compile(
        source,
        target=GPUTarget("cuda", sm, 32),
        options={"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True},
    )
    meta = compiled.metadata
    return Cubin(
        entry=meta.name,
        sm=sm,
        image=compiled.asm["cubin"],
        shared_bytes=meta.shared,
        num_warps=meta.num_warps,
        global_scratch_bytes=meta.global_scratch_size,
        arguments=tuple(types),
    )


def resource_usage(cubin: Cubin, folder: Path) -> Resources:
    """Registers and spills of a cubin, by the `cuobjdump` of the triton wheel; writes a temporary
    file into `folder`."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    path = folder / f"{cubin.entry}.sm{cubin.sm}.probe.cubin"
    path.write_bytes(cubin.image)
    try:
        text = subprocess.run(
            [str(tool), "--dump-resource-usage", str(path)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    finally:
        path.unlink()
    found = {k: int(v) for k, v in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", text)}
    return Resources(found["REG"], found["STACK"], found["SHARED"], found["LOCAL"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slipstream.kernels.compile",
        description="Compile paged decode attention to cubins, without a GPU.",
    )
    parser.add_argument("--sm", default="89,90", help="compute capabilities, e.g. 89,90")
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--kv-heads", type=int, required=True)
    parser.add_argument("--head-dim", type=int, required=True)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--block-tokens", type=int, default=32)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the cubins")
    args = parser.parse_args(argv)
    try:
        shape = AttentionShape(
            args.heads, args.kv_heads, args.head_dim, args.dtype, args.block_tokens
        )
        sms = [int(s) for s in args.sm.split(",")]
        args.output.mkdir(parents=True, exist_ok=True)
        for sm in sms:
            cubin = compile_paged_decode_attention(shape, sm)
            usage = resource_usage(cubin, args.output)
            stem = f"{cubin.entry}.sm{sm}"
            (args.output / f"{stem}.cubin").write_bytes(cubin.image)
            record = {**cubin.metadata(), "resources": asdict(usage), "shape": asdict(shape)}
            (args.output / f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
            print(
                f"sm_{sm}: {len(cubin.image)} bytes, {usage.registers} registers, "
                f"{cubin.shared_bytes} bytes shared, {usage.local_bytes} bytes spilled"
            )
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ImportError:
        print(f"error: compiling kernels needs triton: {INSTALL_HINT}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
