"""Conversations for chat templates, and jinja2 set up as transformers sets it up: the oracle."""

from __future__ import annotations

import datetime
import functools
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.sandbox import ImmutableSandboxedEnvironment

from slipstream import _native
from slipstream.errors import IncompatibleError, SlipstreamError

NOW = datetime.datetime(2026, 3, 7, 15, 4, 9)
REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "?"}

CALL = {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "units": None}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city, <today> & later.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Its name"},
                    "days": {"type": "integer", "enum": [1, 2, 3], "default": 1},
                    "detail": {"type": ["string", "null"]},
                    "where": {
                        "type": "object",
                        "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                        "required": ["lat", "lon"],
                    },
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
            "return": {"type": "string"},
        },
    },
    {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {}}},
]


def _user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def _assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def _parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


SYSTEM = {"role": "system", "content": "Be brief. <Really> & 'kind'."}
UNICODE = "  Grüße, 世界 👩‍👩‍👧 \t\u00a0\n\nمرحبا \u2028 {{ x }} {% if %} \\n \"q\" 'a' \u007f\n"  # noqa: RUF001
TOOL_TURN = [
    _user("Weather?"),
    _assistant("", tool_calls=[{"id": "abcdef123", "type": "function", "function": CALL}]),
    {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": "sunny, 21.5"},
]
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "empty": [],
    "user": [_user("Hello")],
    "system": [SYSTEM, _user("Hello")],
    "only system": [SYSTEM],
    "turns": [SYSTEM, _user("One"), _assistant("Two"), _user("Three"), _assistant("Four")],
    "continued": [_user("One"), _assistant("Two"), _user("Three")],
    "unicode": [_user(UNICODE), _assistant(UNICODE), _user(UNICODE)],
    "blank": [_user(""), _assistant("  \n"), _user("\n")],
    "two users": [_user("One"), _user("Two")],
    "assistant first": [_assistant("One"), _user("Two")],
    "parts": [SYSTEM, _user(_parts("One", "Two")), _assistant(_parts("Three")), _user("Four")],
    "system parts": [{"role": "system", "content": _parts("Be brief.")}, _user(_parts("One"))],
    "image": [_user([{"type": "image", "image": "x.png"}, *_parts("What is it?")])],
    "image url": [_user([*_parts("See"), {"type": "image_url", "image_url": {"url": "x"}}])],
    "developer": [{"role": "developer", "content": "Do."}, _user("Hello")],
    "unknown role": [_user("Hello"), {"role": "critic", "content": "Bad"}],
    "reasoning": [
        _user("2+2?"),
        _assistant("4", reasoning_content="Two and two.\n"),
        _user("Sure?"),
    ],
    "thinking": [_user("2+2?"), _assistant("4", thinking="Sum."), _user("Sure?")],
    "think tags": [_user("2+2?"), _assistant("<think>\nSum.\n</think>\n\n4"), _user("Sure?")],
    "tool call": TOOL_TURN[:2],
    "tool result": TOOL_TURN,
    "tool answer": [SYSTEM, *TOOL_TURN, _assistant("It is sunny."), _user("Thanks")],
    "tool call without content": [
        _user("Weather?"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"type": "function", "function": CALL}],
        },
        {"role": "tool", "content": json.dumps({"sky": "clear"})},
    ],
    "two tool calls": [
        _user("Weather?"),
        _assistant(
            "Let me see.",
            reasoning_content="I need both.",
            tool_calls=[
                {"id": "call_0001", "type": "function", "function": CALL},
                {
                    "id": "call_0002",
                    "type": "function",
                    "function": {"name": "now", "arguments": {}},
                },
            ],
        ),
        {"role": "tool", "tool_call_id": "call_0001", "content": "rain"},
        {"role": "tool", "tool_call_id": "call_0002", "content": "12:00"},
        _assistant("Rain at noon."),
    ],
    "json arguments": [
        _user("Weather?"),
        _assistant(
            None,
            tool_calls=[
                {
                    "id": "abcdef123",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Bern", "days": 1}'},
                }
            ],
        ),
        {"role": "tool", "tool_call_id": "abcdef123", "name": "get_weather", "content": "snow"},
    ],
}
VARIABLES: list[dict[str, Any]] = [
    {},
    {"enable_thinking": False},
    {"enable_thinking": True, "reasoning_effort": "high", "builtin_tools": ["browser", "python"]},
]
DOCUMENTS = [{"title": "Rivers", "text": "The Aare."}, {"title": "Lakes", "text": "Thunersee."}]


@dataclass(frozen=True)
class Case:
    """One rendering of one template."""

    name: str
    messages: list[dict[str, Any]]
    add_generation_prompt: bool = True
    tools: list[dict[str, Any]] | None = None
    documents: list[dict[str, Any]] | None = None
    variables: dict[str, Any] = field(default_factory=dict)


def cases() -> Iterator[Case]:
    """Every conversation with and without a generation prompt, tools and documents."""
    for name, messages in CONVERSATIONS.items():
        for prompt, tools, variables in itertools.product((True, False), (None, TOOLS), VARIABLES):
            yield Case(name, messages, prompt, tools, None, variables)
    yield Case("documents", CONVERSATIONS["system"], documents=DOCUMENTS)
    yield Case("documents and tools", CONVERSATIONS["turns"], tools=TOOLS, documents=DOCUMENTS)


class _GenerationBlock(Extension):
    tags = {"generation"}  # noqa: RUF012  jinja2 declares it without ClassVar

    def parse(self, parser: Any) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Any) -> str:
        return str(caller())


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def oracle_environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


def with_reasoning_names(message: Mapping[str, Any]) -> dict[str, Any]:
    for name in REASONING_NAMES:
        if message.get(name) is not None:
            return {"thinking": message[name], **message, "reasoning_content": message[name]}
    return dict(message)


@dataclass(frozen=True)
class Outcome:
    """What both said: the texts, or None where one failed; `refused` by Slipstream alone."""

    expected: str | None
    rendered: str | None
    refused: bool
    error: str

    @property
    def identical(self) -> bool:
        return self.expected == self.rendered and not self.refused

    @property
    def different(self) -> bool:
        return self.expected != self.rendered and not self.refused


@functools.lru_cache(maxsize=256)
def _compile(source: str, environment: jinja2.Environment) -> jinja2.Template:
    return environment.from_string(source)


def render_both(source: str, case: Case, environment: jinja2.Environment) -> Outcome:
    """Renders through jinja2 and through the native interpreter."""
    expected: str | None = None
    error = ""
    try:
        expected = _compile(source, environment).render(
            messages=[with_reasoning_names(message) for message in case.messages],
            tools=case.tools,
            documents=case.documents,
            add_generation_prompt=case.add_generation_prompt,
            **SPECIAL_TOKENS,
            **case.variables,
        )
    except Exception as problem:  # whatever a template can raise
        error = f"jinja2: {type(problem).__name__}: {problem}"
    try:
        rendered = _native.ChatTemplate.parse(source).render(
            json.dumps(case.messages),
            add_generation_prompt=case.add_generation_prompt,
            tools_json=json.dumps(case.tools),
            documents_json=json.dumps(case.documents),
            variables_json=json.dumps({**SPECIAL_TOKENS, **case.variables}),
            now=NOW.timetuple()[:8],
        )
    except IncompatibleError as problem:
        return Outcome(expected, None, True, f"{error} native: {problem}")
    except SlipstreamError as problem:
        return Outcome(expected, None, False, f"{error} native: {problem}")
    return Outcome(expected, rendered, False, error)
