"""What configuring the C++ build refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_a_missing_tokenizers_wheel_ends_the_configuration(tmp_path: Path) -> None:
    # Interpreters that do not have the wheel, in front of those that do.
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("python", "python3"):
        (bare / name).write_text("#!/bin/sh\nexit 1\n")
        (bare / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    environment["PATH"] = f"{bare}:{environment['PATH']}"
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), "-G", "Ninja"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    words = " ".join(done.stderr.split())
    assert "CMake Error" in words and "pip install tokenizers==" in words
    assert "-DSLIPSTREAM_UNICODE_TABLES=FILE" in words
