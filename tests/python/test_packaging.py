"""What the wheel promises: light imports, types, the C++ library and a program built on it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import script

import slipstream

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_LIBRARIES = {
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
}


def output_of(*command: str | Path, **options: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=options.get("cwd"),
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def needed(library: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", library)))


def native_module() -> Path:
    spec = importlib.util.find_spec("slipstream._native")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def test_version_is_one() -> None:
    from slipstream import _native

    assert slipstream.__version__ == importlib.metadata.version("slipstream")
    assert slipstream.__version__ == _native.__version__
    first_line = output_of(script("slipstream"), "--version").splitlines()[0]
    assert first_line == f"slipstream {slipstream.__version__}"


def test_tokenizers_pin_is_one() -> None:
    """The Unicode tables are generated from the release that the tests compare with."""
    generator = (ROOT / "runtime_cpp/src/text/generate_unicode_tables.py").read_text()
    pin = re.search(r'^TOKENIZERS_VERSION = "(.+)"', generator, re.M)
    assert pin is not None
    pins = re.findall(r'"tokenizers==(.+)"', (ROOT / "pyproject.toml").read_text())
    assert pins == [pin[1]] * 2


@pytest.mark.parametrize("module", ["slipstream", "slipstream.kernels", "slipstream.builder"])
def test_import_is_light(module: str) -> None:
    heavy = ["numpy", "jinja2", "torch", "transformers", "triton", "slipstream._native"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    assert output_of(sys.executable, "-c", code).strip() == "[]"


def test_public_names_exist() -> None:
    for name in slipstream.__all__:
        assert getattr(slipstream, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Llm'"):
        slipstream.Llm  # noqa: B018


def test_user_code_type_checks(tmp_path: Path) -> None:
    """The types of the package, the native module's among them, reach a user's mypy."""
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(
        "from slipstream import LLM, SamplingParams\n"
        "from slipstream.builder.errors import BuildError\n"
        "reveal_type(LLM('m.engine').generate(['a'], SamplingParams())[0].outputs[0].text)\n"
        "LLM(3)\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "c"), "user.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert 'Revealed type is "str"' in checked.stdout.replace("builtins.", ""), checked.stdout
    assert "user.py:4: error: Argument 1" in checked.stdout
    assert "Found 1 error in 1 file" in checked.stdout, checked.stdout


def test_sdk_holds_every_public_header() -> None:
    shipped = {path.name for path in (slipstream.sdk_dir() / "include/slipstream").iterdir()}
    assert shipped == {path.name for path in (ROOT / "runtime_cpp/include/slipstream").iterdir()}
    for path in (slipstream.sdk_dir() / "include/slipstream").iterdir():
        output_of("g++", "-std=c++20", "-fsyntax-only", "-x", "c++", f"-I{path.parents[1]}", path)


def test_shared_library_exports_the_public_api_only() -> None:
    library = slipstream.sdk_dir() / "lib/libslipstream.so"
    symbols = output_of("nm", "-DC", "--defined-only", library).splitlines()
    names = [line.split(maxsplit=2)[2] for line in symbols]
    strangers = [
        name
        for name in names
        if not re.match(r"((vtable|typeinfo|typeinfo name) for )?slipstream::", name)
    ]
    assert not strangers
    rooms = r"slipstream::(core|pack|engine|exec|kv|sched|decode|text|executor)::"
    assert not [name for name in names if re.search(rf"^({rooms})|::Impl::", name)]
    for call in ("Engine::Load", "Runtime::Create", "Model::Create", "Executor::Create"):
        assert any(name.startswith(f"slipstream::{call}(") for name in names), call


def test_libraries_need_the_system_only() -> None:
    for library in (slipstream.sdk_dir() / "lib/libslipstream.so", native_module()):
        assert needed(library) <= SYSTEM_LIBRARIES, library


@pytest.fixture(scope="module", params=["wheel", "prefix"])
def prefix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both ways to have the C++ library: inside the wheel, and installed by CMake."""
    if request.param == "wheel":
        return slipstream.sdk_dir()
    build = ROOT / "build/cpp"
    if not (build / "runtime_cpp/libslipstream.so").exists():
        pytest.skip("build/cpp is missing; `make test-cpp` makes it")
    target = tmp_path_factory.mktemp("prefix")
    output_of("cmake", "--install", build, "--prefix", target)
    return target


@pytest.fixture(scope="module")
def examples(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C++ examples, built from a copy that sees nothing of the source tree."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(ROOT / "examples/cpp", folder / "source")
    command = ["cmake", "-S", folder / "source", "-B", folder / "build", "-G", "Ninja"]
    output_of(*command, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    output_of("cmake", "--build", folder / "build")
    return folder / "build"


def test_cpp_example_runs_with_an_empty_environment(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    engine = smollm2_engine("bf16")
    text = output_of("env", "-i", examples / "stream", engine, "The capital of France is", "8")
    assert "Paris" in text


def test_tokenize_example_gives_the_text_back(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    text = "Größe 42 🙂<|im_end|>"
    *tokens, joined = output_of(
        "env", "-i", examples / "tokenize", smollm2_engine("bf16"), text
    ).splitlines()
    assert joined == text
    assert [int(line.split("\t")[0]) for line in tokens][-1] == 2
    assert len(tokens) > 5


def test_chat_example_keeps_the_conversation(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    """Its answers are those of Python with the same history; a bad line costs only itself."""
    engine = smollm2_engine("bf16")
    lines = [b"What is the capital of France?", b'And of "Italy"?\\', b"\xff", b"", b"/reset"]
    lines += [b"What is the capital of France?"]
    run = subprocess.run(
        ["env", "-i", examples / "chat", engine, "8"],
        input=b"\n".join(lines),
        capture_output=True,
        timeout=120,
    )
    params = slipstream.SamplingParams(max_tokens=8, temperature=0.0)
    conversation: list[dict[str, str]] = []
    answers = []
    with slipstream.LLM(engine, threads=1, kv_memory="64M") as llm:
        for line in lines[:2]:
            conversation.append({"role": "user", "content": line.decode()})
            answers.append(llm.chat(conversation, params)[0].outputs[0].text)
            conversation.append({"role": "assistant", "content": answers[-1]})
    assert "Paris" in answers[0]
    assert run.stdout.decode() == f"{answers[0]}\n{answers[1]}\n{answers[0]}\n"
    assert re.fullmatch("chat: .*UTF-8.*\n", run.stderr.decode())
    assert run.returncode == 1


def test_shared_prefix_example_computes_the_prefix_once(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    out = output_of("env", "-i", examples / "shared_prefix", smollm2_engine("bf16"))
    match = re.search(r"prompt tokens: (\d+), computed: (\d+), taken from others: (\d+)", out)
    assert match, out
    prompt, computed, taken = map(int, match.groups())
    assert computed + taken == prompt and taken > prompt * 0.6


@pytest.mark.parametrize("language", ["cpp", "python"])
def test_host_tier_examples_compute_nothing_again(
    examples: Path, smollm2_engine: Callable[..., Path], language: str
) -> None:
    script = ROOT / "examples/python/host_tier.py"
    program = [examples / "host_tier"] if language == "cpp" else [sys.executable, script]
    out = output_of(*program, smollm2_engine("bf16"))
    found = re.findall(r"(\d+) prompt tokens, of which (\d+) were", out)
    assert len(found) == (1 if language == "cpp" else 4), out
    for prompt, cached in found:
        assert int(cached) > 0.9 * int(prompt)
    moved = re.search(r"blocks moved out: (\d+), .*back: (\d+)", out)
    assert moved and all(int(blocks) > 20 for blocks in moved.groups()), out


@pytest.mark.parametrize("language", ["cpp", "python"])
def test_kv_events_examples_route_to_the_cache(
    examples: Path, smollm2_engine: Callable[..., Path], language: str
) -> None:
    script = ROOT / "examples/python/kv_events.py"
    program = [examples / "kv_events"] if language == "cpp" else [sys.executable, script]
    out = output_of(*program, smollm2_engine("bf16"))
    pattern = r"turn (\d), conversation (\d): replica (\d), (\d+) of (\d+) prompt"
    rows = [tuple(map(int, row)) for row in re.findall(pattern, out)]
    assert len(rows) == 12, out
    homes = {talk: replica for turn, talk, replica, _, _ in rows if turn == 0}
    assert sorted(homes.values()) == [0, 0, 1, 1]
    for turn, talk, replica, cached, tokens in rows:
        assert replica == homes[talk]
        assert turn == 0 or cached > 0.8 * tokens


def test_priorities_example_serves_the_urgent_request_first(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    out = output_of("env", "-i", examples / "priorities", smollm2_engine("bf16"))
    assert out.splitlines() == [
        "urgent: length, stepped aside 0 times",
        "background: length, stepped aside 1 times",
    ]


def test_logits_processor_example_writes_no_digit(
    examples: Path, smollm2_engine: Callable[..., Path]
) -> None:
    engine = smollm2_engine("bf16")
    prompt = "1, 2, 3, 4,"
    assert re.search(r"\d", output_of("env", "-i", examples / "stream", engine, prompt, "32"))
    out = output_of("env", "-i", examples / "logits_processor", engine, prompt)
    assert out.strip() and not re.search(r"\d", out)


@pytest.mark.parametrize(
    "example",
    [
        "chat",
        "host_tier",
        "kv_events",
        "logits_processor",
        "priorities",
        "shared_prefix",
        "stream",
        "tokenize",
    ],
)
def test_cpp_examples_name_what_is_wrong(examples: Path, tmp_path: Path, example: str) -> None:
    arguments = (
        [] if example in ("host_tier", "kv_events", "priorities", "shared_prefix") else ["1"]
    )
    missing = subprocess.run(
        [examples / example, tmp_path / "none.engine", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert missing.returncode == 1
    assert "none.engine" in missing.stderr
    assert subprocess.run([examples / example], capture_output=True, timeout=60).returncode == 2


def test_pkg_config_builds_the_example(prefix: Path, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folder = next(prefix.rglob("pkgconfig"))
    flags = output_of(
        "env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--cflags", "--libs", "slipstream"
    ).split()
    source = ROOT / "examples/cpp/tokenize.cpp"
    output_of("g++", source, *flags, "-o", tmp_path / "tokenize")
    version = output_of(
        "env", f"PKG_CONFIG_PATH={folder}", "pkg-config", "--modversion", "slipstream"
    )
    assert version.strip() == slipstream.__version__
    assert "libslipstream.so" in output_of("readelf", "-d", tmp_path / "tokenize")


@pytest.mark.full
def test_the_runtime_preset_needs_no_python(tmp_path: Path) -> None:
    """Configured and built with a PATH that holds no Python, from tables made beforehand."""
    source = tmp_path / "source"
    for part in ("CMakeLists.txt", "CMakePresets.json", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, source / part)
    for part in ("runtime_cpp", "python", "examples"):
        shutil.copytree(ROOT / part, source / part)
    tables = source / "build/deps/unicode_tables.inc"
    tables.parent.mkdir(parents=True)
    output_of(sys.executable, ROOT / "runtime_cpp/src/text/generate_unicode_tables.py", tables)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("cmake", "ninja", "g++", "c++", "gcc", "cc", "as", "ld", "ar", "ranlib", "ccache"):
        path = shutil.which(tool)
        if path is not None:
            (tools / tool).symlink_to(path)
    environment = {"PATH": str(tools), "HOME": str(tmp_path)}
    for command in (["cmake", "--preset", "runtime"], ["cmake", "--build", "--preset", "runtime"]):
        run = subprocess.run(
            command, cwd=source, env=environment, capture_output=True, text=True, timeout=1200
        )
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert (source / "build/runtime/runtime_cpp/libslipstream.so").exists()


def test_static_library_links(prefix: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/cpp", tmp_path / "source")
    lists = tmp_path / "source/CMakeLists.txt"
    lists.write_text(lists.read_text().replace("slipstream::slipstream", "slipstream::static"))
    command = ["cmake", "-S", tmp_path / "source", "-B", tmp_path / "build", "-G", "Ninja"]
    output_of(*command, f"-DCMAKE_PREFIX_PATH={prefix}")
    output_of("cmake", "--build", tmp_path / "build")
    assert needed(tmp_path / "build/stream") <= SYSTEM_LIBRARIES
