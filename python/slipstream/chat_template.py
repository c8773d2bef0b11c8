"""The model's own chat template, rendered as transformers renders it.

The native interpreter does the work. What it does not know (it says so) goes to jinja2, which is
imported only then.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slipstream import _native
from slipstream._shown import excerpt, shown
from slipstream.errors import IncompatibleError, InvalidArgumentError
from slipstream.sampling import check_text

if TYPE_CHECKING:
    import jinja2

__all__ = ["ChatTemplate", "Message"]

Message = Mapping[str, Any]

# Reasoning goes by several names; as in transformers, templates find it under two of them.
_REASONING_NAMES = ("reasoning_content", "thinking", "reasoning")


class ChatTemplate:
    """A compiled chat template. Thread-safe.

    Args:
        source: the Jinja text.
        special_tokens: names such as `bos_token` that the template may use.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str] | None = None) -> None:
        if not isinstance(source, str):
            raise InvalidArgumentError(
                f"chat_template is a {type(source).__name__}; it must be the text of a template."
            )
        check_text("The chat template", source)
        self._source = source
        self._special_tokens = dict(special_tokens or {})
        self._lock = threading.Lock()
        self._jinja: jinja2.Template | None = None
        self._native: _native.ChatTemplate | None = None
        try:
            self._native = _native.ChatTemplate.parse(source)
        except IncompatibleError:
            self._jinja = _compile(source)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt text of a conversation. Tokenize it without adding special tokens."""
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise InvalidArgumentError(
                f"messages is a {type(messages).__name__}; it must be a list of dicts with 'role' "
                "and 'content'."
            )
        conversation = [_check_message(i, message) for i, message in enumerate(messages)]
        if not conversation:
            raise InvalidArgumentError("The conversation is empty; give at least one message.")
        variables = {"documents": None, **self._special_tokens, **variables}
        everything = (conversation, tools, variables)
        if self._native is not None and _is_json(everything, 0):
            try:
                return self._render_native(conversation, add_generation_prompt, tools, variables)
            except IncompatibleError:
                pass  # jinja2 may know more
        return self._render_jinja(conversation, add_generation_prompt, tools, variables)

    def _render_native(
        self,
        conversation: list[dict[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
        variables: dict[str, Any],
    ) -> str:
        assert self._native is not None
        others = dict(variables)
        documents = others.pop("documents")
        return self._native.render(
            _dump(conversation),
            add_generation_prompt=add_generation_prompt,
            tools_json=_dump(tools),
            documents_json=_dump(documents),
            variables_json=_dump(others),
            now=time.localtime()[:8],
        )

    def _render_jinja(
        self,
        conversation: list[dict[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
        variables: dict[str, Any],
    ) -> str:
        with self._lock:
            if self._jinja is None:
                self._jinja = _compile(self._source)
            template = self._jinja
        import jinja2

        try:
            return template.render(
                messages=[_with_reasoning_names(message) for message in conversation],
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                **variables,
            )
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise InvalidArgumentError(
                f"The model's chat template refuses these messages: {excerpt(str(error), 400)}. "
                "Change the messages, or pass another chat_template."
            ) from None


def _compile(source: str) -> jinja2.Template:
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
    environment.globals["strftime_now"] = time.strftime
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise InvalidArgumentError(
            f"The chat template is not valid Jinja: line {error.lineno}: "
            f"{excerpt(str(error.message), 400)}. Correct it there, or pass another chat_template."
        ) from None


def _is_json(value: Any, depth: int) -> bool:
    """Whether the value comes back from JSON as it went: no tuples inside, no other keys."""
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return True
    if depth > 60:
        return False
    if kind is dict:
        return all(type(k) is str and _is_json(v, depth + 1) for k, v in value.items())
    if kind is list or (kind is tuple and depth == 0):
        return all(_is_json(item, depth + 1) for item in value)
    return False


def _dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    check_text("The conversation", text)
    return text


def _with_reasoning_names(message: dict[str, Any]) -> dict[str, Any]:
    for name in _REASONING_NAMES:
        if message.get(name) is not None:
            return {"thinking": message[name], **message, "reasoning_content": message[name]}
    return message


def _check_message(index: int, message: Message) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidArgumentError(
            f"messages[{index}] is {shown(message)}; it must be a dict with 'role' and 'content'."
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
                f"messages[{index}].content holds {shown(part)}; only parts of the form "
                "{'type': 'text', 'text': ...} are available."
            )
        texts.append(str(part.get("text", "")))
    return "\n".join(texts)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # jinja2's own filter escapes HTML characters, which would change the prompt.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)
