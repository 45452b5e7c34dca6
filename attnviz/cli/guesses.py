"""What somebody meant: options by other names, options that people expect, words for commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

from attnviz.errors import AttnvizError
from attnviz.wording.words import listed

OTHER_NAMES = {  # that work, and are listed nowhere
    "--output": "--out",
    "--colour": "--colors",
    "--colours": "--colors",
    "--color": "--colors",
    "--cmap": "--colors",
}

MEANT: dict[tuple[str, ...], str] = {  # names of options that people expect, and what there is
    ("mask", "masked", "masking", "autoregressive", "decoder"): "did you mean --causal, --window?",
    ("palette", "colormap", "colourmap", "color-map"): "did you mean --colors?",
    ("save", "write", "to", "export", "outfile", "output-file", "dest"): "did you mean --out?",
    ("format", "png", "svg", "pdf", "csv", "npz", "markdown", "type"): (
        "the suffix of the file says which: --out heatmap.png"
    ),
    ("pptx", "powerpoint", "slides", "deck", "presentation"): (
        "slides are a kind of file: attnviz run --out deck.pptx"
    ),
    ("gif", "animate", "animation", "video", "mp4"): (
        "an animation is a kind of file: attnviz steps --out steps.gif"
    ),
    ("html", "web", "browser", "page"): ("a page is a kind of file: attnviz run --out view.html"),
    ("interactive", "i", "ui", "gui", "tui", "app", "serve"): (
        "the terminal is not interactive: --query follows one token, and attnviz steps shows "
        "every number"
    ),
    ("checkpoint", "weights-file", "pretrained"): "did you mean --model?",
    ("huggingface", "hf", "bert"): (
        "did you mean --model? it takes a name on a hub, such as google-bert/bert-base-uncased"
    ),
    ("text", "sentence", "input", "prompt", "string"): (
        "give the text in quotes, without an option; --file reads it from a file"
    ),
    ("token", "word", "focus", "select", "highlight", "explain"): "did you mean --query?",
    ("head", "layer-index"): "--heads says how many there are; attnviz steps --head shows one",
    ("gqa", "mqa", "groups", "n-kv-heads", "num-kv-heads", "num-key-value-heads"): (
        "did you mean --kv-heads?"
    ),
    ("softcap", "cap", "clip", "logit-cap", "softcapping", "attn-logit-softcapping", "tanh"): (
        "did you mean --soft-cap?"
    ),
    ("bahdanau", "additive", "score", "score-function", "similarity"): "did you mean --scoring?",
    ("num-heads", "n-heads", "nheads", "n-head", "num-attention-heads"): "did you mean --heads?",
    ("d-k", "dk", "head-size", "head-width", "key-dim"): "did you mean --head-dim?",
    ("d-model", "embed-dim", "embedding-dim", "hidden-size", "width"): (
        "--dim is how many numbers represent a token; --size is how large a picture is"
    ),
    ("d-ff", "ffn", "mlp", "ff"): "did you mean --feed-forward?",
    ("no-mlp", "no-ffn", "no-feed-forward", "attn-only"): "did you mean --attention-only?",
    ("ablate", "ablation", "knock-out", "knockout", "switch-off", "prune", "remove", "off"): (
        "did you mean --without?"
    ),
    ("prediction", "predictions", "logits", "next", "next-token", "top-k", "topk", "answer"): (
        "did you mean --predict?"
    ),
    ("n-layers", "num-layers", "depth", "block", "blocks", "transformer"): "did you mean --layers?",
    ("random-seed", "random-state", "rng", "manual-seed"): "did you mean --seed?",
    ("rope", "rotary", "alibi", "sinusoidal", "positional"): "did you mean --positions?",
    ("rope-theta", "rope-base", "theta", "base", "rope-freq-base"): "did you mean --position-base?",
    ("cross", "encoder", "source", "context"): "did you mean --memory?",
    ("gpu", "cuda", "cpu", "mps"): "did you mean --device?",
    ("precision", "float16", "bfloat16", "half", "fp16"): "did you mean --dtype?",
    ("dark", "light", "dark-mode", "style", "background"): "did you mean --theme dark?",
    ("figsize", "width-height", "resolution", "aspect", "pixels"): (
        "--size takes 16:9, inches (8x5) or pixels (1920x1080)"
    ),
    ("all", "everything", "verbose", "long"): (
        "--show all shows every part, --full every number of it"
    ),
    ("check", "test", "assert"): "did you mean --verify?",
    ("silent", "no-notes"): "did you mean --quiet?",
    ("softmax", "sharpness", "beta"): "did you mean --temperature?",
    ("vary", "sweep", "versus", "vs", "against"): "did you mean --by?",
    ("runs", "trials", "samples", "n-seeds", "seeds"): "did you mean --repeats?",
    ("decimals", "precision-digits", "round"): "did you mean --digits?",
    ("no-mask", "bidirectional"): "did you mean --no-causal?",
    ("unscaled", "raw"): "did you mean --no-scale?",
    ("full-help", "all-help", "long-help", "help-full"): "did you mean --help-all?",
    ("steps", "step-by-step", "walk"): "attnviz steps shows every number on the way",
    ("compare", "comparison", "diff"): "attnviz compare shows ways of attending side by side",
    ("epochs", "iterations", "iters", "max-steps", "n-steps"): "did you mean --steps?",
    ("lr", "learning-rate"): "did you mean --rate?",
    ("batch-size",): "did you mean --batch?",
    ("accuracy", "target", "patience", "stop-at"): "did you mean --until?",
    ("resume", "continue", "restart"): "did you mean --from?",
    ("example-sentence", "probe"): "did you mean --watch?",
    ("version",): "attnviz version prints it",
    ("list", "examples"): "attnviz example list names the examples",
}
COMMANDS = {  # words that people expect to be commands, in front of a text
    "visualize": "run",
    "visualise": "run",
    "visualization": "run",
    "viz": "run",
    "view": "run",
    "show": "run",
    "plot": "run",
    "draw": "run",
    "render": "run",
    "display": "run",
    "heatmap": "run",
    "attention": "run",
    "explain": "steps",
    "walk": "steps",
    "compute": "steps",
    "diff": "compare",
    "analyze": "inspect",
    "analyse": "inspect",
}
MOST_NAMED = 3  # commands that have an option
MISSING = {"attnviz example show": "attnviz example list names them"}
_SENTENCES = {name: told for names, told in MEANT.items() for name in names}


def no_option(name: str, whole: str, command: Any, ctx: Any) -> AttnvizError:
    """An option that is not there, with what is: by its spelling, by its meaning, elsewhere."""
    if " " in whole.partition("=")[0]:
        return AttnvizError(
            f"'{whole}' looks like an option", f'put -- before it: {ctx.command_path} -- "…"'
        )
    known = [*_options(command, ctx)]
    return AttnvizError(
        f"{ctx.command_path} has no option {name}", _hint(name.lower(), known, command, ctx)
    )


def _hint(name: str, known: Sequence[str], command: Any, ctx: Any) -> str:
    told = _SENTENCES.get(name.lstrip("-").replace("_", "-"), "")
    if ctx.command_path in told and (spelt := _near(name, known, 0.8)):
        return f"did you mean {spelt[0]}?"
    named = re.findall(r"--[\w-]+", told)
    if told and ("attnviz " in told or all(each in known for each in named)):
        return told
    near = [] if told else _near(name, known, 0.8)
    wanted = named[0] if named else name
    elsewhere = [path for path, options in _commands(ctx) if wanted in options]
    belongs = f"{wanted} belongs to {listed(elsewhere[:MOST_NAMED])}" if elsewhere else ""
    if near:
        return f"did you mean {near[0]}?{f' {belongs}' if belongs else ''}"
    if belongs:
        return belongs
    near = _near(name, known, 0.6)
    lists = "--help-all" if "--help-all" in known else "--help"
    return f"did you mean {near[0]}?" if near else f"{ctx.command_path} {lists} lists the options"


def _near(name: str, known: Sequence[str], cutoff: float) -> list[str]:
    """Options that begin so, or that are spelt nearly so."""
    word = name.lstrip("-").replace("_", "-")  # dashes are common to all
    options = {each.removeprefix("--"): each for each in known if each.startswith("--")}
    begun = [each for each in options if len(word) > 2 and each.startswith(word)]
    return [options[each] for each in begun or get_close_matches(word, options, 1, cutoff)]


def _options(command: Any, ctx: Any) -> Iterator[str]:
    for each in command.get_params(ctx):
        if each.param_type_name == "option":
            yield from (*each.opts, *each.secondary_opts)


def _commands(ctx: Any) -> Iterator[tuple[str, list[str]]]:
    """Every other command, by the words that call it, with its options."""
    yield from _below(ctx.find_root().command, ctx.find_root(), "attnviz")


def _below(group: Any, ctx: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if hasattr(command, "list_commands"):
            yield from _below(command, ctx, f"{path} {name}")
        else:
            yield f"{path} {name}", [*_options(command, ctx)]


def meant_command(args: Sequence[str]) -> str | None:
    """The line that is meant by words whose first is no command, and stands before a text.

    >>> meant_command(["visualize", "hello world"]), meant_command(["hello", "world"])
    ('attnviz run "hello world"', None)
    """
    word, *others = args
    texts = [*takewhile(lambda each: not each.startswith("-"), others)]
    if not texts or (len(texts) > 1 and " " not in texts[0]):
        return None
    meant = COMMANDS.get(word.lower())
    if meant is None and not (" " in texts[0] and re.fullmatch("[a-z]+", word)):
        return None
    return f'attnviz {meant or "run"} "{texts[0]}"'


def resembles(word: str, names: Iterable[str]) -> bool:
    """Whether a single word is most likely one of these, misspelt.

    >>> resembles("runn", ["run", "steps"]), resembles("I am", ["run"]), resembles("hello", ["run"])
    (True, False, False)
    """
    return bool(get_close_matches(word.lower(), list(names), n=1, cutoff=0.7))
