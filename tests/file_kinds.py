"""FILE_KINDS: every kind of file that attnviz reads, where, and the canaries in it.

SECURITY.md lists the same kinds. A module that opens files is in one of the two tables here.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

# Functions that open a file, of Python, of other packages and of attnviz.
OPENERS = frozenset(
    (
        *("open", "read_text", "read_bytes", "ZipFile", "load", "fromfile", "memmap", "loadtxt"),
        *("safe_open", "load_file", "from_file", "from_pretrained"),
        *("read_content", "read_lines", "read_stream", "read_text_file"),
        *("read_numpy_arrays", "read_tensors_and_metadata"),
    )
)
OPENING_CLASSES = ("toml.Table.read", "Table.read")


@dataclass(frozen=True)
class FileKind:
    """A kind of file, as SECURITY.md names it, and the modules that read it."""

    name: str
    modules: tuple[str, ...]
    canaries: tuple[str, ...]  # what their names in tests/test_canaries.py begin with


FILE_KINDS = (
    FileKind(
        "texts, standard input, and conversations (`.json`)",
        (
            *("analysis.comparison", "analysis.inspection.two_sentences"),
            *("cli.text_source", "traces.inputs"),
        ),
        ("text",),
    ),
    FileKind(
        "lines of texts (`survey`, `--texts`, `learn --file`, `listen --labels`)",
        (
            "wings.corpora.command",
            "wings.listen.command",
            "traces.trained.batches",
            "learning.line_tasks",
        ),
        ("lines", "survey"),
    ),
    FileKind("pairs of sentences (`.tsv`)", ("wings.corpora.pair_file",), ("pairs",)),
    FileKind(
        "saved traces (`.json`, `.npz`)",
        ("traces.archive_reader", "cli.saved_trace"),
        ("trace", "trace .json", "trace .npz"),
    ),
    FileKind(
        "matrices (`.toml`, `.json`, `.npz`, `.npy`, `.safetensors`)",
        ("traces.matrices", "vectors.arrays"),
        ("given .toml", "given .json", "given .npz", "given .safetensors"),
    ),
    FileKind(
        "vectors (`.npy`, `.npz`, `.safetensors`, `.bin`, lines of words)",
        ("vectors.vector_files",),
        ("embeddings .npy", "embeddings .npz", "embeddings .bin", "embeddings .txt"),
    ),
    FileKind(
        "the table of vectors in a model's folder, with its index and tokenizer",
        ("vectors.embedding_tables",),
        ("embeddings of a folder",),
    ),
    FileKind(
        "worked examples (`.toml`)",
        ("wings.examples.example_files", "wings.examples.example_names", "wings.examples.command"),
        ("example",),
    ),
    FileKind("lessons of the quiz (`.toml`)", ("wings.quiz.lesson",), ("quiz",)),
    FileKind(
        "segments of a prompt by name (`.toml`)",
        ("analysis.inspection.segment_reading",),
        ("segments",),
    ),
    FileKind("grammars (`.toml`)", ("learning.grammar_files",), ("grammar",)),
    FileKind("models written by hand (`.toml`)", ("traces.models.by_hand",), ("by hand",)),
    FileKind(
        "models that attnviz saved: config, vocabulary, weights",
        ("traces.models.card", "traces.models.folder", "learning.choices"),
        ("saved model",),
    ),
    FileKind("trainings to go on with", ("learning.progress",), ("goes on",)),
    FileKind(
        "transformers: configs and indexes",
        ("traces.trained.model_location", "traces.trained.loading"),
        ("transformer", "transformer's config", "transformer's index"),
    ),
    FileKind(
        "transformers: weights (`.safetensors`, torch's own files)",
        ("traces.trained.loading",),
        ("transformer's weights",),
    ),
    FileKind(
        "transformers: tokenizers and vocabularies",
        ("traces.trained.loading", "tokens.tokenizer_limits"),
        ("transformer's tokenizer",),
    ),
    FileKind(
        "chat templates, which are programs and run in a sandbox (`--chat`)",
        ("traces.trained.loading", "traces.trained.chat_template"),
        ("chat template",),
    ),
    FileKind(
        "transformers: how they generate",
        ("traces.trained.loading",),
        ("transformer's generation",),
    ),
    FileKind(
        "transformers: adapters, which are refused",
        ("traces.trained.checkpoint_folders",),
        ("transformer's adapter",),
    ),
    FileKind(
        "GGUF files",
        ("wings.gguf.file", "wings.gguf.blocks"),
        ("gguf",),
    ),
    FileKind(
        "the state of a trainer, in checkpoints",
        ("traces.trained.checkpoint_folders",),
        ("checkpoints",),
    ),
)
# Modules that open files of other kinds: none of them comes from a stranger.
OWN_FILES = {
    "cli.app": "the null device",
    "wings.explore.command": "the terminal",
    "cli.torchrun": "the null device",
    "machine.atomic_files": "what is written, and its folder",
    "machine.files": "files for the readers above",
    "machine.memory": "limits that the system tells",
    "machine.panics": "the null device",
    "renderers.data": "an archive that is written",
    "renderers.page.notebook_output": "a picture that was drawn",
    "renderers.page.page": "attnviz's own scripts",
    "renderers.picture.glyphs": "fonts of the system",
    "wings.quiz.words": "attnviz's own words",
    "wings.slides.deck": "slides that are written",
    "tokens.gpt2": "a package's vocabulary, known by its sum",
    "traces.structured_text": "files for the readers above",
    "traces.toml_reader": "files for the readers above",
    "views.documents": "attnviz's own table of fields",
}


def opening_calls(source: str) -> list[str]:
    """Return the calls in a module that open files, as they are written."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    functions = (ast.unparse(call.func) for call in calls)
    return [
        function
        for function in functions
        if function.rpartition(".")[2] in OPENERS or function.endswith(OPENING_CLASSES)
    ]
