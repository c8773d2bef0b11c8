"""Chat templates render as transformers renders them, and bad messages say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream.chat_template import ChatTemplate
from slipstream.errors import InvalidArgumentError

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
BLOCKS = """\
{{- bos_token }}
{%- if tools %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
{% for message in messages %}
    {% if message.role == 'stop' %}
        {% break %}
    {% endif %}
[{{ message.role }}]
    {% generation %}
{{ message.content | trim }} {{ eos_token }}
    {% endgeneration %}
{% endfor %}
{{ {"a": "<é>"} | tojson }}{{ extra }}
"""
DATE = "{{ strftime_now('%Y-%m-%d') }}{{ messages[0].content }}"
MESSAGES = [
    {"role": "system", "content": "Be <brief> & kind."},
    {"role": "user", "content": "  Grüße, 世界  "},
    {"role": "stop", "content": "never shown"},
]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"x": [1, "ü"]}}}]


@pytest.mark.parametrize("source", [CHATML, BLOCKS, DATE])
@pytest.mark.parametrize("generation_prompt", [True, False])
def test_rendering_equals_transformers(source: str, generation_prompt: bool) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    variables: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "extra": "!"}
    expected, _ = utils.render_jinja_template(
        conversations=[MESSAGES],
        chat_template=source,
        tools=TOOLS,
        add_generation_prompt=generation_prompt,
        **variables,
    )
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    rendered = template.render(
        MESSAGES, tools=TOOLS, add_generation_prompt=generation_prompt, extra="!"
    )
    assert rendered == expected[0]


def test_whitespace_and_json_follow_the_rules_of_transformers() -> None:
    """The same rules without transformers: trim_blocks, lstrip_blocks, tojson without escapes."""
    template = ChatTemplate(
        "{% if true %}\n  {% set x = 1 %}\nA{{ x }}\n{% endif %}\n{{ '<é>' | tojson }}"
    )
    assert template.render([{"role": "user", "content": "x"}]) == 'A1\n"<é>"'


def test_parts_of_text_are_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert (
        ChatTemplate("{{ messages[0].content }}").render([{"role": "user", "content": parts}])
        == "one\ntwo"
    )


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "empty"),
        (["hello"], r"messages\[0\]"),
        ([{"content": "x"}], r"messages\[0\]"),
        ([{"role": "user"}], "no content"),
        (
            [{"role": "user", "content": "x"}, {"role": "user", "content": 7}],
            r"messages\[1\].content",
        ),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "image_url"),
    ],
)
def test_bad_messages(messages: list[Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        ChatTemplate(CHATML).render(messages)


def test_a_template_that_refuses_says_why() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(InvalidArgumentError, match="roles must alternate"):
        template.render([{"role": "user", "content": "x"}])


def test_a_template_is_sandboxed() -> None:
    escape = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    with pytest.raises(InvalidArgumentError):
        ChatTemplate(escape).render([{"role": "user", "content": "x"}])
    mutate = "{{ messages.append(1) }}"
    with pytest.raises(InvalidArgumentError):
        ChatTemplate(mutate).render([{"role": "user", "content": "x"}])


def test_broken_jinja_names_the_line() -> None:
    with pytest.raises(InvalidArgumentError, match="line 2"):
        ChatTemplate("ok\n{% if %}")


@pytest.mark.parametrize("messages", [None, 3, "text", {"role": "user", "content": "x"}])
def test_messages_that_are_no_list_are_refused(messages: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a list of dicts"):
        ChatTemplate(CHATML).render(messages)


def test_lone_surrogates_and_templates_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"conversation is not valid .* U\+D800"):
        ChatTemplate(CHATML).render([{"role": "user", "content": "a\ud800"}])
    with pytest.raises(InvalidArgumentError, match=r"chat template is not valid .* U\+DCFF"):
        ChatTemplate("{{ messages }}\udcff")
    with pytest.raises(InvalidArgumentError, match="chat_template is a int"):
        ChatTemplate(3)  # type: ignore[arg-type]
