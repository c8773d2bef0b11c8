"""The model's own chat template, run as transformers runs it: in a jinja2 sandbox."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.errors import InvalidArgumentError

__all__ = ["ChatTemplate", "Message"]

Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled chat template. Thread-safe.

    Args:
        source: the Jinja text.
        special_tokens: names such as `bos_token` that the template may use.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        import jinja2
        from jinja2.ext import Extension, loopcontrols
        from jinja2.nodes import CallBlock, Node
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class GenerationBlock(Extension):
            """`{% generation %}` marks the assistant's words for training; here it is only text."""

            tags = {"generation"}  # noqa: RUF012  jinja2 declares it without ClassVar

            def parse(self, parser: Any) -> Node:
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                return CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

            def _body(self, caller: Any) -> str:
                return str(caller())

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        self._special_tokens = dict(special_tokens or {})
        self._errors = (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise InvalidArgumentError(
                f"The chat template is not valid Jinja: line {error.lineno}: {error.message}."
            ) from None

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt text of a conversation. Tokenize it without adding special tokens."""
        conversation = [_check_message(i, message) for i, message in enumerate(messages)]
        if not conversation:
            raise InvalidArgumentError("The conversation is empty; give at least one message.")
        try:
            return self._template.render(
                messages=conversation,
                tools=tools,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **{**self._special_tokens, **variables},
            )
        except self._errors as error:
            raise InvalidArgumentError(
                f"The model's chat template refuses these messages: {error}"
            ) from None


def _check_message(index: int, message: Message) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidArgumentError(
            f"messages[{index}] is {message!r:.80}; it must be a dict with 'role' and 'content'."
        )
    result = dict(message)
    content = result.get("content")
    if isinstance(content, (list, tuple)):
        result["content"] = _join_text_parts(index, content)
    elif content is not None and not isinstance(content, str):
        raise InvalidArgumentError(
            f"messages[{index}].content is a {type(content).__name__}; it must be text."
        )
    elif content is None and "tool_calls" not in result:
        raise InvalidArgumentError(f"messages[{index}] has no content; give it a text.")
    return result


def _join_text_parts(index: int, parts: Sequence[Any]) -> str:
    texts = []
    for part in parts:
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise InvalidArgumentError(
                f"messages[{index}].content holds {part!r:.80}; only parts of the form "
                "{'type': 'text', 'text': ...} are available."
            )
        texts.append(str(part.get("text", "")))
    return "\n".join(texts)


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    # jinja2's own filter escapes HTML characters, which would change the prompt.
    return json.dumps(
        value, ensure_ascii=options.pop("ensure_ascii", False), indent=indent, **options
    )


def _raise_exception(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)


def _strftime_now(layout: str) -> str:
    return datetime.datetime.now().strftime(layout)
