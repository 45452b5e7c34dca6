"""What can be refused before anything is computed: names, numbers and files, without torch.

Whoever made a mistake need not wait for torch to hear of it. Everything here is checked again
where it is used, by the same functions.
"""

from __future__ import annotations

from pathlib import Path

from attnviz import files
from attnviz.attention.choices import refuse_unknown_device
from attnviz.errors import AttnvizError
from attnviz.tokens.finding import find_query
from attnviz.tokens.tokenizers import tokenize
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import Settings, chosen_variant, head_width, refuse_odd_rotary


def refuse_text(text: str | None, settings: Settings, query: str | None = None) -> None:
    """A text that cannot be cut up, or in which a query is not."""
    tokens = None if text is None else tokenize(text, settings.tokenizer)
    memory_of(settings)
    if tokens is not None and query is not None:
        find_query(tokens, query)


def refuse_settings(settings: Settings) -> None:
    """Settings that no trace can be made with."""
    refuse_unknown_device(settings.device)
    if settings.given is not None:
        files.refuse_missing(Path(settings.given), "take matrices from")
    elif settings.embeddings is not None:
        files.refuse_missing(files.file_and_name(settings.embeddings)[0], "take embeddings from")
    else:  # the width of an embedding is known
        refuse_odd_rotary(settings, head_width(settings, chosen_variant(settings), settings.width))


def memory_of(settings: Settings) -> Tokens | None:
    """The tokens of the second sentence, if there is one."""
    if settings.memory is None:
        return None
    try:
        return tokenize(settings.memory, settings.tokenizer)
    except AttnvizError as error:
        raise error.told(f"--memory: {error}") from None
