"""WINGS: products that the core does without, and what each adds to its tables.

Modules are named here, and imported when they are needed. The core imports no wing: it has their
commands, files and views from these rows, and what else it calls from `load_from_wing`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NamedPaths = Mapping[str, str]  # paths of functions, such as "module:function"


@dataclass(frozen=True, kw_only=True)
class Wing:
    """What a product adds to the core."""

    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # path, line of help
    files: NamedPaths = field(default_factory=dict)  # by suffix: what writes or reads them
    views: NamedPaths = field(default_factory=dict)  # by the class of a result: what makes its View
    library: NamedPaths = field(default_factory=dict)  # by public name
    lent: NamedPaths = field(default_factory=dict)  # what else the core calls


WINGS = {
    # Imported by attnviz explore.
    "explore": Wing(
        commands={
            "explore": (
                "attnviz.wings.explore.command:explore_command",
                "Explore the heads of a sentence with the arrow keys.",
            ),
        },
    ),
    # Imported by attnviz survey, attnviz pairs and --texts, and by their functions in the library.
    "corpora": Wing(
        commands={
            "survey": (
                "attnviz.wings.corpora.command:survey_command",
                "Show what each head of a trained model does over many texts.",
            ),
            "pairs": (
                "attnviz.wings.corpora.command:pairs_command",
                "Show which heads follow the meaning when one word changes.",
            ),
        },
        views={
            "CorpusEffects": "attnviz.wings.corpora.effects_view:view",
            "MinimalPairs": "attnviz.wings.corpora.pairs_view:view",
            "Survey": "attnviz.wings.corpora.survey_view:view",
        },
        library={
            "MinimalPairs": "attnviz.wings.corpora.pairs:MinimalPairs",
            "Survey": "attnviz.wings.corpora.survey:Survey",
            "head_effects": "attnviz.wings.corpora.effects:head_effects",
            "pairs": "attnviz.wings.corpora.pairs:pairs",
            "survey": "attnviz.wings.corpora.survey:survey",
        },
        lent={"deliver_corpus_effects": "attnviz.wings.corpora.command:deliver_corpus_effects"},
    ),
    # Imported by attnviz quiz.
    "quiz": Wing(
        commands={
            "quiz": (
                "attnviz.wings.quiz.command:quiz_command",
                "Ask questions about attention: predict first, then see the numbers.",
            ),
        },
        files={  # of a View with a sheet of exercises
            ".html": "attnviz.wings.quiz.page:quiz_html",
            ".pdf": "attnviz.wings.quiz.sheet:exercise_pdf",
        },
    ),
    # Imported by attnviz example, and by example() in the library.
    "examples": Wing(
        commands={
            "example": (
                "attnviz.wings.examples.group:app",
                "Recompute worked examples from textbooks, step by step.",
            ),
        },
        views={"Example": "attnviz.wings.examples.view:view"},
        library={"example": "attnviz.wings.examples.example_names:example"},
        lent={"example_commands": "attnviz.wings.examples.group:EXAMPLE_COMMANDS"},
    ),
    # Imported by -o x.gif and attnviz compare --checkpoints, and by film() in the library.
    "films": Wing(
        files={".gif": "attnviz.wings.films.gif:gif_picture"},
        views={
            "CheckpointComparison": "attnviz.wings.films.checkpoints_view:view",
            "Film": "attnviz.wings.films.view:view",
        },
        library={
            "Film": "attnviz.wings.films.film:Film",
            "compare_checkpoints": "attnviz.wings.films.checkpoints:compare_checkpoints",
            "film": "attnviz.wings.films.film:film",
        },
        lent={"compare_checkpoints": "attnviz.wings.films.checkpoints:compare_checkpoints"},
    ),
    # Imported by --model x.gguf, and to tell whether a file without a suffix is one.
    "gguf": Wing(
        files={".gguf": "attnviz.wings.gguf.reader:load_file"},
        lent={
            "is_gguf": "attnviz.wings.gguf.file:is_gguf",
            "read_gguf": "attnviz.wings.gguf.file:read_gguf",
            "refuse_unusable_gguf": "attnviz.wings.gguf.reader:refuse_unusable_file",
        },
    ),
    # Imported by attnviz listen, and by listen() in the library.
    "listen": Wing(
        commands={
            "listen": (
                "attnviz.wings.listen.command:listen_command",
                "Run a PyTorch program, and show every attention inside it.",
            ),
        },
        views={"Heard": "attnviz.wings.listen.heard:heard_view"},
        library={
            "Heard": "attnviz.wings.listen.heard:Heard",
            "listen": "attnviz.wings.listen.heard:listen",
        },
    ),
    # Imported by -o x.pptx.
    "slides": Wing(
        files={".pptx": "attnviz.wings.slides.deck:pptx"},
    ),
}
LENT_PATHS = {name: path for wing in WINGS.values() for name, path in wing.lent.items()}


def load_from_wing(name: str) -> Any:
    """Import what a wing lends to the core under this name."""
    return pkgutil.resolve_name(LENT_PATHS[name])
