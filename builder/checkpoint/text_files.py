"""The text side of a checkpoint: tokenizer, chat template, generation defaults, end ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.builder.checkpoint.json_file import exists, parse_json, read_bytes
from slipstream.builder.errors import InputError
from slipstream.errors import NotFoundError

MAX_TEMPLATE_BYTES = 4 << 20


@dataclass(frozen=True)
class TextFiles:
    """Files as they are in the checkpoint; `{}` where an optional one is absent.

    `eos_token_ids` comes from generation_config.json, and is None if that does not say.
    """

    tokenizer: bytes
    tokenizer_config: bytes
    generation_config: bytes
    chat_template: bytes | None
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...] | None
    log: tuple[str, ...]


def read_text_files(folder: Path, vocab_size: int) -> TextFiles:
    """Reads and checks all of them. NotFoundError or InputError name the file and the fix."""
    log: list[str] = []
    tokenizer = _read_tokenizer(folder, vocab_size, log)
    tokenizer_config, settings = _optional_object(folder / "tokenizer_config.json")
    generation_config, generation = _optional_object(folder / "generation_config.json")
    where = str(folder / "generation_config.json")
    bos = _ids(generation.get("bos_token_id"), vocab_size, where, "bos_token_id")
    eos = _ids(generation.get("eos_token_id"), vocab_size, where, "eos_token_id")
    return TextFiles(
        tokenizer=tokenizer,
        tokenizer_config=tokenizer_config,
        generation_config=generation_config,
        chat_template=_chat_template(folder, settings, log),
        bos_token_id=bos[0] if bos else None,
        eos_token_ids=eos,
        log=tuple(log),
    )


def _read_tokenizer(folder: Path, vocab_size: int, log: list[str]) -> bytes:
    path = folder / "tokenizer.json"
    if not exists(path):
        old = [n for n in ("tokenizer.model", "vocab.json", "spiece.model") if exists(folder / n)]
        hint = (
            f"it has {old[0]}: save the tokenizer with AutoTokenizer.from_pretrained(...)."
            "save_pretrained(...)"
            if old
            else "copy it from the model's page"
        )
        raise NotFoundError(f"{folder} has no tokenizer.json; {hint}")
    data = read_bytes(path)
    value = parse_json(data, str(path))
    model = value.get("model") if isinstance(value, dict) else None
    if not isinstance(model, dict):
        raise InputError(f"{path} describes no tokenizer ('model' is missing); copy the original")
    ids = [i for i in _vocabulary(model) if isinstance(i, int)]
    added = value.get("added_tokens") or []
    if not isinstance(added, list):
        raise InputError(
            f"{path}: 'added_tokens' is {str(added)[:40]}, expected a list; copy the original file"
        )
    ids += [t["id"] for t in added if isinstance(t, dict) and isinstance(t.get("id"), int)]
    if ids and max(ids) >= vocab_size:
        log.append(
            f"tokenizer: {sum(i >= vocab_size for i in ids)} tokens have ids from {vocab_size} on, "
            "beyond the model's vocabulary; prompts that contain them will be refused"
        )
    return data


def _vocabulary(model: dict[str, Any]) -> list[Any]:
    vocab = model.get("vocab")
    if isinstance(vocab, dict):
        return list(vocab.values())
    return list(range(len(vocab))) if isinstance(vocab, list) else []


def _optional_object(path: Path) -> tuple[bytes, dict[str, Any]]:
    if not exists(path):
        return b"{}", {}
    data = read_bytes(path)
    value = parse_json(data, str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a JSON object; copy the checkpoint's original file")
    return data, value


def _ids(value: Any, vocab_size: int, where: str, key: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    ids = value if isinstance(value, list) else [value]
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < vocab_size:
            raise InputError(
                f"{where}: '{key}' = {str(value)[:80]} must hold token ids from 0 to "
                f"{vocab_size - 1}; correct the file"
            )
    return tuple(dict.fromkeys(ids))


def _chat_template(folder: Path, settings: dict[str, Any], log: list[str]) -> bytes | None:
    """chat_template.jinja, which newer files use, comes before tokenizer_config.json."""
    path = folder / "chat_template.jinja"
    if exists(path):
        data = read_bytes(path, MAX_TEMPLATE_BYTES)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8; copy the original file") from error
        return data or None
    value = settings.get("chat_template")
    where = f"{folder / 'tokenizer_config.json'}: 'chat_template'"
    if isinstance(value, list):
        value = _default_template(value, where, log)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InputError(f"{where} must be text or a list of named templates; correct the file")
    return value.encode("utf-8")


def _default_template(items: list[Any], where: str, log: list[str]) -> Any:
    named = {}
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise InputError(
                f"{where} must list objects with 'name' and 'template'; correct the file"
            )
        named[item["name"]] = item.get("template")
    if not named:
        return None
    if "default" not in named:
        raise InputError(
            f"{where} names {', '.join(named)} but no 'default'; name one of them 'default'"
        )
    if len(named) > 1:
        log.append(f"chat template: 'default' of {', '.join(sorted(named))}")
    return named["default"]
