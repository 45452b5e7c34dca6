"""The vectors that settings name: of a file of one's own, or of a trained model's table."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from attnviz.machine.permission import refuse_name_in_file
from attnviz.tokens.tokens import Tokens
from attnviz.traces.settings import Settings
from attnviz.traces.trained import static
from attnviz.vectors.loaded import from_file
from attnviz.vectors.static import vectors_of
from attnviz.vectors.table import FromTable
from attnviz.wording.commands import quoted


def named_vectors(
    settings: Settings, tokens: Tokens
) -> tuple[Float[Tensor, "token dim"], FromTable | None]:
    """A vector for each token; and, where they are rows of a model's table, of which."""
    name = settings.embeddings or ""
    hint = f"name it, with a text: --embeddings {quoted(name)}"
    refuse_name_in_file(name, "file of vectors", hint, about="embeddings")
    place = static.place_of(name)
    if place is None:
        return from_file(name, tokens), None
    return vectors_of(static.folder_of(place), place.name, tokens, settings.dim)
