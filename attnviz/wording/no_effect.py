"""NO_EFFECT: which options change nothing, where, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NoEffect:
    """Options that change nothing in some calls, and a reason that a reader expects.

    Options are named by their fields; "*" is every option. A row holds for calls of one of
    `commands` with one of the options of `beside`, none of `without`, and only files with one of
    the suffixes of `files`; what is empty holds for all calls.
    """

    options: tuple[str, ...]
    why: str
    commands: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


NO_EFFECT: tuple[NoEffect, ...] = (
    NoEffect(
        options=("*",),
        beside=("help_all",),
        why="--help-all shows the help, and nothing else is done",
    ),
    NoEffect(
        options=("device",),
        why="it says where numbers are computed, which are the same on every device",
    ),
    NoEffect(
        options=("no_pager",),
        why="only output on a terminal that is longer than its screen is shown in a pager",
    ),
    NoEffect(
        options=("trust_remote_code",),
        why="only some models bring Python code of their own",
    ),
    NoEffect(
        options=("limit",),
        why="only files that are larger are refused",
    ),
    NoEffect(
        options=("memory_budget",),
        why="only weights that take more memory are computed where they are shown",
    ),
    NoEffect(
        options=("truncate",),
        why="only a text with more tokens than the model has positions is cut off",
    ),
    NoEffect(
        options=("full",),
        why="only what is too wide or too long for the screen is shortened",
    ),
    NoEffect(
        options=("dtype",),
        commands=("quiz", "explore"),
        why="numbers are shown with so few digits that those of another precision are the same",
    ),
    NoEffect(
        options=("vectors",),
        commands=("survey", "pairs", "quiz", "heads"),
        why="their pages have no queries and keys of tokens",
    ),
    NoEffect(
        options=("vectors",),
        files=("svg", "png", "gif", "pdf", "pptx", "txt", "md", "json", "npz", "csv"),
        why="only a page stores queries and keys for its arithmetic",
    ),
    NoEffect(
        options=("size", "dpi", "transparent", "text_size", "points", "font", "footnote"),
        files=("html", "txt", "md", "json", "npz", "csv"),
        why="they are about pictures, and a page fits its window",
    ),
    NoEffect(
        options=("dpi",),
        files=("svg", "pdf"),
        why="drawings have no pixels",
    ),
    NoEffect(
        options=("title", "query", "show", "predict", "log", "numbers", "answers"),
        beside=("json",),
        why="--json prints all numbers, whatever is shown, and no title",
    ),
    NoEffect(
        options=("dpi", "footnote"),
        commands=("quiz",),
        why="an exercise sheet has neither pixels nor a footnote",
    ),
    NoEffect(
        options=("seed",),
        beside=("model", "given"),
        why="of a model and of matrices of one's own, nothing is drawn at random",
    ),
    NoEffect(
        options=(
            *("tokenizer", "embeddings", "dim", "heads", "kv_heads", "head_dim"),
            *("positions", "position_base"),
        ),
        beside=("given",),
        why="the file has the numbers that they would lead to",
    ),
)
