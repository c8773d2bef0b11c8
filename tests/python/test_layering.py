"""Who may use whom: the rules of docs/architecture.md, read off the #include and import lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A room of runtime_cpp/src -> the rooms whose headers it may include, itself aside.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "pack": {"core"},
    "engine": {"core", "pack"},
    "exec": {"core", "pack", "engine"},
    "kv": {"core"},
    "sched": {"core"},
    "decode": {"core"},
    "text": {"core"},
    "executor": {"core", "pack", "engine", "exec", "kv", "sched", "decode", "text"},
}
# A folder of builder/ -> the folders that it may import. Modules at the top compose them.
PARTS: dict[str, set[str]] = {
    "ir": set(),
    "quant": {"ir"},
    "checkpoint": {"quant"},
    "models": {"ir", "quant"},
    "passes": {"ir", "quant"},
    "plan": {"ir", "quant"},
    "targets": {"ir", "quant", "passes", "plan"},
    "engine": {"quant"},
}
# Modules at the top of builder/ that any folder may use.
LEAVES = {"errors", "formats", "native", "strict_json"}
# The bindings that look behind the public headers, for the builder: packing, and verification.
DOORS = {
    "python/native/pack.cc": ("pack", "core"),
    "python/native/teacher_forcing.cc": ("executor",),
}
# Plain value types that pass from one part to another: every part above ir may use them.
VALUES = {"models.spec", "plan.program", "plan.tensors"}
GPU_HEADERS = re.compile(r"^(cuda|cudnn|cublas|nvrtc|NvInfer|NvOnnx)", re.IGNORECASE)


def cpp_violations(path: str, text: str) -> Iterator[str]:
    """What the C++ file `path` (relative to the root) includes against the rules."""
    parts = Path(path).parts
    gpu_allowed = path.startswith("runtime_cpp/src/exec/tensorrt/") or parts[0] == "plugins"
    for line, header in enumerate_includes(text):
        where = f"{path}:{line} includes {header}"
        if GPU_HEADERS.match(header) and not gpu_allowed:
            yield f"{where}: GPU headers belong under exec/tensorrt and plugins"
        target = header.split("/")[0]
        if parts[:2] == ("runtime_cpp", "include"):
            if target in ROOMS:
                yield f"{where}: a public header shows no room"
        elif parts[:2] == ("runtime_cpp", "src"):
            room = parts[2]
            if room not in ROOMS:
                yield f"{path}: '{room}' is not a known room"
            elif target in ROOMS and target != room and target not in ROOMS[room]:
                yield f"{where}: '{room}' may use {sorted(ROOMS[room])}"
        elif (
            parts[0] in ("python", "examples")
            and target in ROOMS
            and target not in DOORS.get(path, ())
        ):
            yield f"{where}: only public headers may be used here"


def enumerate_includes(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match[1]


def python_violations(path: str, text: str) -> Iterator[str]:
    """What the Python file `path` (relative to the root) imports against the rules."""
    for line, module in imports(ast.parse(text), package_of(path)):
        where = f"{path}:{line} imports {module}"
        top = module.split(".")[0]
        if top == "triton" and not path.startswith("plugins/kernels/"):
            yield f"{where}: only plugins/kernels may"
        if top in ("torch", "transformers"):
            yield f"{where}: only tests may"
        kernel = module.startswith("slipstream.kernels.") and ".compile" not in module
        if kernel and path != "plugins/kernels/compile.py":
            yield f"{where}: kernel modules load triton; plugins/kernels/compile.py is the door"
        if not path.startswith("builder/"):
            continue
        if module.startswith("slipstream._native") and path != "builder/native.py":
            yield f"{where}: builder/native.py is the only door"
        parts = Path(path).parts
        tail = module.removeprefix("slipstream.builder.")
        target = tail.split(".")[0]
        if len(parts) < 3 or not module.startswith("slipstream.builder."):
            continue
        part = parts[1]
        if part not in PARTS:
            yield f"{path}: '{part}' is not a known part of the builder"
        elif part != "ir" and any(f"{tail}.".startswith(f"{value}.") for value in VALUES):
            continue
        elif target != part and target not in PARTS[part] | LEAVES:
            yield f"{where}: '{part}' may use {sorted(PARTS[part] | LEAVES)}"


def package_of(path: str) -> str:
    """The dotted package of a file, for relative imports."""
    for root, package in (
        ("builder", "slipstream.builder"),
        ("plugins/kernels", "slipstream.kernels"),
    ):
        if path.startswith(root + "/"):
            return ".".join([package, *Path(path).relative_to(root).parts[:-1]])
    return ".".join(["slipstream", *Path(path).relative_to("python/slipstream").parts[:-1]])


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every module that is imported anywhere in the file, `from x import y` as x.y."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def files(*patterns: str) -> list[Path]:
    found = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    assert found, f"no file matches {patterns}"
    return found


def test_cpp_rooms() -> None:
    sources = files(
        *(f"runtime_cpp/**/*.{suffix}" for suffix in ("h", "cc")),
        "python/native/*.cc",
        "python/native/*.h",
        "examples/cpp/*.cpp",
    )
    found = [
        violation
        for path in sources
        for violation in cpp_violations(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert not found, "\n".join(found)


def test_python_parts() -> None:
    sources = files("builder/**/*.py", "python/slipstream/**/*.py", "plugins/kernels/**/*.py")
    found = [
        violation
        for path in sources
        for violation in python_violations(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert not found, "\n".join(found)


def test_value_modules_use_only_each_other_and_the_formats() -> None:
    allowed = (*VALUES, "formats")
    for name in VALUES:
        path = f"builder/{name.replace('.', '/')}.py"
        for _, module in imports(ast.parse((ROOT / path).read_text()), package_of(path)):
            if module.startswith("slipstream."):
                assert any(
                    module.startswith(f"slipstream.builder.{value}.") for value in allowed
                ), f"{path} imports {module}"


def test_triton_stays_out_of_the_package_import() -> None:
    """`slipstream.kernels` itself imports neither triton nor a module that does."""
    tree = ast.parse((ROOT / "plugins/kernels/__init__.py").read_text())
    loaded = [module for _, module in imports(tree, "slipstream.kernels")]
    assert all(module.startswith("__future__") for module in loaded), loaded


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("runtime_cpp/src/core/a.cc", '#include "pack/layout.h"'),
        ("runtime_cpp/src/pack/a.h", '#include "engine/manifest.h"'),
        ("runtime_cpp/src/kv/a.cc", '#include "sched/admission.h"'),
        ("runtime_cpp/src/sched/a.cc", '#include "kv/block_pool.h"'),
        ("runtime_cpp/src/exec/cpu/a.cc", "#include <cuda_runtime.h>"),
        ("runtime_cpp/src/exec/a.cc", '#include "executor/loop.h"'),
        ("runtime_cpp/src/misc/a.cc", '#include "slipstream/types.h"'),
        ("runtime_cpp/include/slipstream/a.h", '#include "core/dtype.h"'),
        ("python/native/engine.cc", '#include "engine/manifest.h"'),
        ("examples/cpp/a.cpp", '#include "text/bpe.h"'),
    ],
)
def test_cpp_violation_is_found(path: str, line: str) -> None:
    assert list(cpp_violations(path, f"// text\n{line}\n"))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("runtime_cpp/src/exec/tensorrt/a.cc", "#include <NvInfer.h>"),
        ("runtime_cpp/src/executor/a.cc", '#include "kv/block_pool.h"'),
        ("runtime_cpp/src/kv/a.cc", '#include "core/dtype.h"'),
        ("python/native/pack.cc", '#include "pack/n16k4.h"'),
        ("python/native/engine.cc", '#include "slipstream/engine.h"'),
    ],
)
def test_cpp_use_within_the_rules_passes(path: str, line: str) -> None:
    assert not list(cpp_violations(path, line))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("builder/ir/a.py", "from slipstream.builder.passes import manager"),
        ("builder/ir/a.py", "from slipstream.builder import models"),
        ("builder/ir/a.py", "from slipstream.builder.models.spec import ModelSpec"),
        ("builder/plan/a.py", "from slipstream.builder.models.llama import build"),
        ("builder/engine/a.py", "from slipstream.builder.ir import Graph"),
        ("builder/engine/a.py", "from ..ir import Graph"),
        ("builder/models/a.py", "import slipstream.builder.plan.lowering"),
        ("builder/misc/a.py", "from slipstream.builder.ir import Graph"),
        ("builder/plan/a.py", "from slipstream import _native"),
        ("builder/cli.py", "import slipstream._native"),
        ("builder/cli.py", "def f():\n    import torch"),
        ("python/slipstream/llm.py", "import transformers.utils"),
        ("python/slipstream/llm.py", "import triton"),
        ("builder/targets/a.py", "from slipstream.kernels import paged_attention"),
    ],
)
def test_python_violation_is_found(path: str, line: str) -> None:
    assert list(python_violations(path, line))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("builder/native.py", "from slipstream import _native"),
        ("builder/passes/a.py", "from slipstream.builder.ir import Graph"),
        ("builder/engine/a.py", "from slipstream.builder import native"),
        ("builder/engine/a.py", "from slipstream.builder.plan.program import CpuProgram"),
        ("plugins/kernels/compile.py", "import triton"),
        ("builder/targets/a.py", "from slipstream.kernels import compile"),
        ("builder/targets/a.py", "from slipstream.kernels.compile import AttentionShape"),
        ("python/slipstream/llm.py", "from slipstream import _native"),
    ],
)
def test_python_use_within_the_rules_passes(path: str, line: str) -> None:
    assert not list(python_violations(path, line))
