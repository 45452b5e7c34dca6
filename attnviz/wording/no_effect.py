"""NO_EFFECT: which options may change nothing, where, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
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


def _row(options: str, why: str, **places: str) -> NoEffect:
    """Return a row, of names with spaces between them."""
    names = {place: tuple(words.split()) for place, words in places.items()}
    return NoEffect(tuple(options.split()), why, **names)


# fmt: off
NO_EFFECT: tuple[NoEffect, ...] = (
    _row("*", "--help-all shows the help, and nothing else is done", beside="help_all"),
    _row("device", "it says where numbers are computed, which are the same on every device"),
    _row("no_pager", "only output that is longer than the screen of a terminal is paged"),
    _row("trust_remote_code", "only some models bring Python code of their own"),
    _row("limit", "only files that are larger are refused"),
    _row("memory_budget", "only weights that take more memory are computed where they are shown"),
    _row("truncate", "only a text with more tokens than the model has positions is cut off"),
    _row("full", "only what is too wide or too long for the screen is shortened"),
    _row("dtype",
         "numbers are shown with so few digits that those of another precision are the same",
         commands="quiz explore"),
    _row("vectors", "it is about the pages that the key w writes", commands="explore"),
    _row("vectors", "their pages have no queries and keys of tokens",
         commands="survey pairs quiz heads"),
    _row("vectors", "only a page stores queries and keys for its arithmetic",
         files="svg png gif pdf pptx txt md json npz csv"),
    _row("vectors", "pages of segments have no queries and keys of tokens",
         beside="segments document"),
    _row("size dpi transparent text_size points font footnote",
         "they are about pictures, and a page fits its window", files="html txt md json npz csv"),
    _row("dpi", "drawings have no pixels", files="svg pdf"),
    _row("title show query predict log numbers answers step key digits layer head curves mean",
         "--json prints all numbers in full, and no title", beside="json"),
    _row("seconds_per_step", "only a .gif shows one step after another", files="svg png pdf html"),
    _row("numbers", "a page shows the number of the cell that is pointed at", files="html"),
    _row("numbers without_segment",
         "a small picture leaves out numbers that its cells have no room for, and notes",
         beside="size"),
    _row("numbers", "lines, bars, words and blocks of a map have no room for numbers",
         beside="as_ query stream memory_budget model checkpoints curves"),
    _row("numbers", "their tables are there for their numbers", commands="survey pairs heads quiz"),
    _row("vectors", "such a page stores no queries and keys",
         beside="stream memory_budget part live learn checkpoints head mean other weigh merge "
         "hide_special hide_first by_sentence words texts"),
    _row("resolution pool log",
         "what one token reads, and a part of a text, are shown token by token",
         beside="query part"),
    _row("pool", "only a map of blocks is pooled: that of a long text, or with --stream",
         without="stream memory_budget"),
    _row("stream", "what is shown of a part, of answers or of all heads needs no map of blocks",
         beside="part predict model"),
    _row("steps until", "a training ends with the first of them", commands="learn compare",
         beside="until steps"),
    _row("resolution pool",
         "such maps are not pooled in blocks, however their weights are computed",
         commands="inspect",
         beside="source by merge weigh hide_special hide_first renormalise words by_sentence part "
         "texts"),
    _row("window", "of the masks that are compared, one is a window", commands="compare",
         beside="by"),
    _row("repeats", "only what random numbers decide is computed with several seeds",
         commands="compare"),
    _row("layer", "without a model there is one layer, which is shown in any case",
         commands="compare"),
    _row("mean", "where each side has one head, or other heads, it is shown in any case",
         commands="compare", beside="by given"),
    _row("query scale", "only curves are shown, of scaled and unscaled scores", beside="curves"),
    _row("reference", "pictures of many values show them side by side, without differences",
         commands="compare", files="png svg pdf"),
    _row("colors numbers", "curves have no cells", beside="learn curves"),
    _row("log", "a terminal shows a long text in blocks so large that few weights are small",
         beside="memory_budget truncate", without="out"),
    _row("dropout",
         "weights are compared before dropout, as the footnote says, which is not written then",
         commands="compare", beside="size points"),
    _row("rank pairs", "one head has neither a rank nor another one beside it",
         beside="merge head"),
    _row("hide_first", "the first token may be one that the tokenizer added",
         beside="hide_special"),
    _row("activation feed_forward attention_only layers memory key",
         "the steps that are shown may stand before what it changes", commands="steps show",
         beside="step stream"),
    _row("dpi footnote", "an exercise sheet has neither pixels nor a footnote", commands="quiz"),
    _row("seed", "of a model and of matrices of one's own, nothing is drawn at random",
         beside="model given checkpoints"),
    _row("tokenizer dim kv_heads position_base",
         "the file has the numbers that they would lead to", beside="given"),
)
# fmt: on
