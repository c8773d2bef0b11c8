"""Engine.apply_chat_template: the model's template and special tokens, as jinja2 renders them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import pytest
from chat_cases import NOW, cases, oracle_environment, with_reasoning_names
from llm_fixtures import TEMPLATE, make_tiny_checkpoint
from test_llm_chat_template import BLOCKS, CHATML, DATE

from slipstream import LLM, _native
from slipstream.builder.build import build
from slipstream.builder.config import BuildConfig
from slipstream.errors import InvalidArgumentError, NotFoundError

TOKENS: dict[str, Any] = {
    "bos_token": {"content": "[BOS]", "lstrip": False},
    "eos_token": "[EOS]",
    "pad_token": None,
    "chat_template": "not this one",
}
SPELLED = {"bos_token": "[BOS]", "eos_token": "[EOS]"}
ENVIRONMENT = oracle_environment()


def build_with(folder: Path, template: str | None, tokens: dict[str, Any]) -> Path:
    checkpoint = make_tiny_checkpoint(folder / "model")
    path = checkpoint / "chat_template.jinja"
    path.unlink()
    if template is not None:
        path.write_text(template)
    (checkpoint / "tokenizer_config.json").write_text(json.dumps(tokens))
    return build(checkpoint, folder / "m.engine", BuildConfig()).path


@pytest.mark.parametrize("template", [TEMPLATE, CHATML, BLOCKS, DATE])
def test_renders_every_conversation_as_jinja2(tmp_path: Path, template: str) -> None:
    engine = _native.Engine.load(str(build_with(tmp_path, template, TOKENS)))
    oracle = ENVIRONMENT.from_string(template)
    rendered = 0
    for case in cases():
        arguments = (
            json.dumps(case.messages),
            {
                "add_generation_prompt": case.add_generation_prompt,
                "tools_json": json.dumps(case.tools),
                "documents_json": json.dumps(case.documents),
                "variables_json": json.dumps({**case.variables, "extra": "!"}),
                "now": NOW.timetuple()[:8],
            },
        )
        try:
            expected = oracle.render(
                messages=[with_reasoning_names(message) for message in case.messages],
                tools=case.tools,
                documents=case.documents,
                add_generation_prompt=case.add_generation_prompt,
                **{**SPELLED, **case.variables, "extra": "!"},
            )
        except (jinja2.TemplateError, TypeError):
            with pytest.raises(InvalidArgumentError):
                engine.apply_chat_template(arguments[0], **arguments[1])
        else:
            assert engine.apply_chat_template(arguments[0], **arguments[1]) == expected, case
            rendered += 1
    assert rendered > 50


@pytest.mark.parametrize("tokens", [TOKENS, {}, {"bos_token": "[B]"}])
def test_the_same_prompt_as_llm_chat(tmp_path: Path, tokens: dict[str, Any]) -> None:
    template = "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|" + TEMPLATE
    messages = [{"role": "user", "content": 'Grüße "x" \\ {{ y }}\n'}]
    with LLM(build_with(tmp_path, template, tokens), kv_memory="8M") as llm:
        (output,) = llm.chat(messages)
        assert llm.engine.apply_chat_template(json.dumps(messages)) == output.prompt
    assert output.prompt is not None
    spelled = output.prompt.split("|")[:3]
    assert spelled == [
        "[BOS]" if tokens is TOKENS else tokens.get("bos_token", "<s>"),
        "[EOS]" if tokens is TOKENS else "</s>",
        "",
    ]


def test_errors(tmp_path: Path) -> None:
    engine = _native.Engine.load(str(build_with(tmp_path, TEMPLATE, {})))
    with pytest.raises(InvalidArgumentError, match="messages is not valid JSON at byte 3"):
        engine.apply_chat_template("[1")
    with pytest.raises(InvalidArgumentError, match="variables"):
        engine.apply_chat_template("[]", variables_json="[]")
    bare = _native.Engine.load(str(build_with(tmp_path / "bare", None, {})))
    with pytest.raises(NotFoundError, match="has no chat template"):
        bare.apply_chat_template("[]")
