"""An example by its name, or by the path of a file."""

from __future__ import annotations

from attnviz.examples.example import Example
from attnviz.examples.names import path_of
from attnviz.examples.reading import read
from attnviz.wording.keywords import of_its_kinds


@of_its_kinds
def example(name: str) -> Example:
    """An example that comes with attnviz by its name, or a person's own by its path.

    >>> from attnviz import example
    >>> example("simplified").view().headline
    'Self-attention without trainable weights'
    """
    return read(path_of(name))
