"""Conversations: messages in a chat template, and where each of them is."""

from __future__ import annotations

import json
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
        try:
            messages = json.loads(text)
        except (ValueError, RecursionError):
            messages = None
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

    A message is found by what differs if another one stands in its place. Refuses a model without
    a template, messages that its template does not accept, and one that it leaves out or rewrites.
    """
    if not getattr(model.tokenizer, "chat_template", None):
        raise AttnvizError(
            f"the model '{model.name}' has no chat template: it was not trained to answer messages",
            f"leave {opt.chat} out, or use an instruction-tuned model",
            about="chat",
        )
    listed = read_messages(text)
    messages = listed or [{"role": "user", "content": text}]
    variants = [
        [*messages[:index], {**message, "content": STAND_IN.format(index)}, *messages[index + 1 :]]
        for index, message in enumerate(messages)
    ]
    try:
        filled, *others = fill_in_template(model.tokenizer, [messages, *variants])
    except TemplateError as error:
        raise AttnvizError(
            f"the chat template of the model '{model.name}' fails: {shorten_message(str(error))}",
            f"leave {opt.chat} out",
            about="chat",
        ) from error
    roles = [
        (message["role"], *_differing_part(filled, other, STAND_IN.format(index)))
        for index, (message, other) in enumerate(zip(messages, others, strict=True))
    ]
    lost = [number for number, (_, start, stop) in enumerate(roles, start=1) if start >= stop]
    if lost and listed is not None:
        role = messages[lost[0] - 1]["role"]
        raise AttnvizError(
            f"the chat template of the model '{model.name}' leaves message {lost[0]}, of the role "
            f"'{role}', out, or rewrites it",
            "leave this message out, or write it into another one",
            about="chat",
        )
    return filled, () if lost else tuple(roles)


def _differing_part(filled: str, other: str, stand_in: str) -> tuple[int, int]:
    """Return where a text has something else in place of `stand_in` of another one; (0, 0) if they
    differ elsewhere, too."""
    before, _, after = other.partition(stand_in)
    is_there = other != before and filled.startswith(before) and filled.endswith(after)
    stop = len(filled) - len(after)
    return (len(before), stop) if is_there and len(before) < stop else (0, 0)
