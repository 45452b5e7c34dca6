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
        commands=("explore",),
        why="it is about the pages that the key w writes",
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
        options=(
            *("title", "show", "query", "predict", "log", "numbers", "answers"),
            *("step", "key", "digits", "layer", "head", "curves", "mean"),
        ),
        beside=("json",),
        why="--json prints all numbers in full, and no title",
    ),
    NoEffect(
        options=("transparent",),
        files=("gif",),
        why="the frames of a film cover those before them",
    ),
    NoEffect(
        options=("seconds_per_step",),
        files=("svg", "png", "pdf", "html"),
        why="only a .gif shows one step after another",
    ),
    NoEffect(
        options=("numbers",),
        files=("html",),
        why="a page shows the number of the cell that is pointed at",
    ),
    NoEffect(
        options=("numbers",),
        beside=("size",),
        why="numbers for which the cells of a picture are too small are left out in any case",
    ),
    NoEffect(
        options=("numbers",),
        beside=("as_", "query", "stream", "memory_budget", "model", "checkpoints", "curves"),
        why="lines, bars, words and blocks of a map have no room for numbers",
    ),
    NoEffect(
        options=("numbers",),
        commands=("survey", "pairs", "heads", "quiz"),
        why="their tables are there for their numbers",
    ),
    NoEffect(
        options=("vectors",),
        beside=(
            *("stream", "memory_budget", "part", "live", "learn", "checkpoints", "head", "mean"),
            *("other", "weigh", "merge", "hide_special", "hide_first", "by_sentence"),
            *("words", "texts"),
        ),
        why="such a page stores no queries and keys",
    ),
    NoEffect(
        options=("resolution", "pool", "log"),
        beside=("query", "part"),
        why="what one token reads, and a part of a text, are shown token by token",
    ),
    NoEffect(
        options=("stream",),
        beside=("part", "predict", "model"),
        why="what is shown of a part, of answers or of all heads needs no map of blocks",
    ),
    NoEffect(
        options=("steps", "until"),
        beside=("until", "steps"),
        commands=("learn",),
        why="a training ends with the first of them",
    ),
    NoEffect(
        options=("stream", "resolution", "pool"),
        beside=(
            *("source", "by", "merge", "weigh", "hide_special", "hide_first", "renormalise"),
            *("words", "by_sentence", "part", "texts"),
        ),
        commands=("inspect",),
        why="such maps are not pooled in blocks, however their weights are computed",
    ),
    NoEffect(
        options=("heads", "causal", "window"),
        beside=("by",),
        commands=("compare",),
        why="what --by names takes each of its values in turn",
    ),
    NoEffect(
        options=("repeats",),
        commands=("compare",),
        why="only what random numbers decide is computed with several seeds",
    ),
    NoEffect(
        options=("layer",),
        commands=("compare",),
        why="without a model there is one layer, which is shown in any case",
    ),
    NoEffect(
        options=("mean",),
        beside=("by", "given"),
        commands=("compare",),
        why="where each side has one head, or other heads, it is shown in any case",
    ),
    NoEffect(
        options=("query", "reference", "mean"),
        beside=("curves",),
        why="only the curves are shown",
    ),
    NoEffect(
        options=("colors", "numbers"),
        beside=("learn", "curves"),
        why="curves have no cells",
    ),
    NoEffect(
        options=("log",),
        beside=("memory_budget", "truncate"),
        without=("out",),
        why="a terminal shows a long text in blocks so large that few weights are small",
    ),
    NoEffect(
        options=("dropout",),
        beside=("size", "points"),
        commands=("compare",),
        why="weights are compared before dropout, as the footnote says, which is not written then",
    ),
    NoEffect(
        options=("rank", "pairs"),
        beside=("merge", "head"),
        why="one head has neither a rank nor another one beside it",
    ),
    NoEffect(
        options=("hide_first",),
        beside=("hide_special",),
        why="the first token may be one that the tokenizer added",
    ),
    NoEffect(
        options=("activation", "feed_forward", "layers", "memory", "key"),
        beside=("step", "stream"),
        commands=("steps", "show"),
        why="the steps that are shown may stand before what it changes",
    ),
    NoEffect(
        options=("dpi", "footnote"),
        commands=("quiz",),
        why="an exercise sheet has neither pixels nor a footnote",
    ),
    NoEffect(
        options=("seed",),
        beside=("model", "given", "checkpoints"),
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
