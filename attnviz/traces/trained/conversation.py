"""Conversations: messages in a chat template, and where each of them is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attnviz.errors import AttnvizError, opt
from attnviz.traces.trained.chat_template import Message, TemplateError, fill_in_template
from attnviz.traces.trained.loading import LoadedTransformer
from attnviz.traces.trained.refusals import shorten_message

STAND_IN = "\ue000{}\ue001"  # for a message: private letters, which no template looks for
MESSAGES_HINT = 'write [{"role": "user", "content": "…"}, …], roles and contents as texts'
Role = tuple[str, int, int]  # who wrote a message, and where it begins and ends in the text


def read_messages(text: str, name: str = "") -> list[Message] | None:
    """Return the messages of a text that is a JSON list of roles and contents; None of another.

    `name` is that of a file that has to be such a list; it is refused where it is another.
    """
    messages: Any = None
    if name or text.lstrip().startswith("[{"):
        with suppress(ValueError, RecursionError):
            messages = json.loads(text)
    if isinstance(messages, list) and messages and all(map(_is_message, messages)):
        return [{"role": each["role"], "content": each["content"]} for each in messages]
    if name:
        raise AttnvizError(f"'{name}' is no list of messages", MESSAGES_HINT, about="chat")
    return None


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and all(
        isinstance(message.get(key), str) for key in ("role", "content")
    )


def fill_in_conversation(model: LoadedTransformer, text: str) -> tuple[str, tuple[Role, ...]]:
    """Return a text in the model's chat template, up to where the answer comes, and the letters of
    each message in it. The text is a list of messages, or else the user's message.

    A message is where its stand-in is in a second text, in which all have one. Refuses a model
    without a template, messages that it does not accept, and one that it leaves out or rewrites.
    """
    if not getattr(model.tokenizer, "chat_template", None):
        raise AttnvizError(
            f"the model '{model.name}' has no chat template: it was not trained to answer messages",
            f"leave {opt.chat} out, or use an instruction-tuned model",
            about="chat",
        )
    given_messages = read_messages(text)
    messages = given_messages or [{"role": "user", "content": text}]
    stand_ins = [STAND_IN.format(index) for index in range(len(messages))]
    others = [{**message, "content": stand_in}
              for message, stand_in in zip(messages, stand_ins, strict=True)]  # fmt: skip
    try:
        full_text, frame = fill_in_template(model.tokenizer, [messages, others])
    except TemplateError as error:
        raise AttnvizError(
            f"the chat template of the model '{model.name}' fails: {shorten_message(str(error))}",
            f"leave {opt.chat} out",
            about="chat",
        ) from error
    roles = _find_messages(full_text, frame, messages)
    if len(roles) < len(messages) and given_messages is not None:
        lost_message, number = messages[len(roles)], len(roles) + 1
        problem = (
            f"the chat template of the model '{model.name}' leaves message {number}, of the role "
            f"'{lost_message['role']}', out, or rewrites it"
        )
        if not lost_message["content"].strip():
            problem = f"message {number}, of the role '{lost_message['role']}', is empty"
        hint = "leave this message out, or write it into another one"
        raise AttnvizError(problem, hint, about="chat")
    return full_text, roles


def _find_messages(full_text: str, frame: str, messages: Sequence[Message]) -> tuple[Role, ...]:
    """Return where each message stands in a text, up to the first that is not there as it is, but
    for spaces around it; `frame` has the stand-ins of all."""
    roles, (before, *rest) = list[Role](), re.split(STAND_IN.format(r"(\d+)"), frame)
    start = len(before)
    for message, number, after in zip(messages, rest[::2], rest[1::2], strict=False):
        content = message["content"]
        ways = (content, content.strip(), content.lstrip(), content.rstrip())
        text = next((way for way in ways if full_text.startswith(way + after, start)), "")
        if not text or not full_text.startswith(before) or number != str(len(roles)):
            break
        roles.append((message["role"], start, start + len(text)))
        start += len(text) + len(after)
    return tuple(roles)
