"""How long `attnviz inspect` takes, and how much memory, beside the smallest script for one head.

The script loads the same model with eager attention, asks for its weights, and prints those of one
head. Speed: the default model on one sentence, whole processes in turn. Memory: the most that a
process had in memory, on 4,096 tokens, with a decoder of 2 layers and 8 heads whose weights are
random; for every view of them that attnviz has. Run it with the Python that attnviz is installed
for: `python benchmarks/inspection.py [--pairs 7]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from attnviz.traces.trained.model_location import locate_transformer
from attnviz.traces.trained.refusals import quiet_transformers

ATTNVIZ = [str(Path(sys.executable).with_name("attnviz")), "inspect"]
SENTENCE = "The animal didn't cross the street because it was too tired"
SLOWER, LESS = 1.15, 0.25  # times as long as the script, and as much memory, at most
TOKENS, LAYERS, HEADS, WIDTH = 4096, 2, 8, 32
WORDS = ("the", "cat", "saw", "a", "dog", "and", "it", "ran", "to", "her", "house", ".")
SCRIPT = """
import sys
from transformers import AutoModel, AutoTokenizer
folder, text = sys.argv[1], open(sys.argv[2]).read()
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModel.from_pretrained(folder, attn_implementation="eager")
weights = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
print(weights[1][0, 7])
"""
VIEWS = {
    "all heads": [],
    "one head": ["--layer", "1", "--head", "7"],
    "one layer": ["--layer", "1"],
    "one token": ["--query", "it#300"],
    "one weight": ["--from", "it#300", "--to", "dog#2"],
}


@dataclass(frozen=True)
class Measured:
    """What a process took."""

    seconds: float
    megabytes: float


def measured(command: list[str], folder: Path) -> Measured:
    """A whole process, from its start to its end; and the most that it had in memory."""
    start = time.perf_counter()
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    if status:
        raise SystemExit(f"{command} failed:\n{(folder / 'errors').read_text()[-2000:]}")
    per_unit = 1 if sys.platform == "darwin" else 1024  # what the system counts in
    return Measured(took, used.ru_maxrss * per_unit / 1e6)


def script(model: Path, text: Path) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(model), str(text)]


def speed(pairs: int, folder: Path) -> str:
    """Both in turn, so that a machine that slows down slows both; the first pair warms the disk."""
    place = locate_transformer("minilm")
    assert place is not None
    assert place.folder is not None
    text = folder / "sentence.txt"
    text.write_text(SENTENCE)
    times = [
        (
            measured([*ATTNVIZ, SENTENCE], folder).seconds,
            measured(script(place.folder, text), folder).seconds,
        )
        for _ in range(pairs + 1)
    ][1:]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(one / other for one, other in times)
    verdict = "" if ratio <= SLOWER else "  too slow"
    return f"{'minilm, a sentence':24}{ours:8.2f}{theirs:8.2f}{ratio:8.2f}{SLOWER:8.2f}{verdict}"


def decoder(folder: Path, layers: int = LAYERS, heads: int = HEADS) -> Path:
    """A decoder with random weights, and a tokenizer with a few words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS) + 1,
        hidden_size=WIDTH * heads,
        intermediate_size=2 * WIDTH * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=TOKENS,
    )
    model = folder / "decoder"
    with quiet_transformers():
        LlamaModel(config).save_pretrained(model)
    vocabulary = {word: place for place, word in enumerate(("[UNK]", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    (model / "tokenizer_config.json").write_text(json.dumps(kind))
    return model


def text_of(tokens: int, folder: Path) -> Path:
    """A file with so many words, each a token of the decoder."""
    text = folder / "long.txt"
    text.write_text(" ".join((WORDS * (tokens // len(WORDS) + 1))[:tokens]))
    return text


def memory(folder: Path) -> list[str]:
    """The most memory of the script, and of each view."""
    model = decoder(folder)
    text = text_of(TOKENS, folder)
    theirs = measured(script(model, text), folder).megabytes
    lines = []
    for name, options in VIEWS.items():
        command = [*ATTNVIZ, "--file", str(text), "--model", str(model), *options]
        ours = measured(command, folder).megabytes
        verdict = "" if ours / theirs <= LESS else "  too much"
        lines.append(f"{name:24}{ours:8.0f}{theirs:8.0f}{ours / theirs:8.2f}{LESS:8.2f}{verdict}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    pairs: int = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        print(f"medians of {pairs} pairs of runs\n")
        print(f"{'inspect / script':24}{'seconds':>8}{'script':>8}{'ratio':>8}{'bound':>8}")
        print(speed(pairs, folder), flush=True)
        print(f"\n{TOKENS:,} tokens, {LAYERS} layers × {HEADS} heads: the most memory\n")
        print(f"{'view / script':24}{'MB':>8}{'script':>8}{'ratio':>8}{'bound':>8}")
        print(*memory(folder), sep="\n")


if __name__ == "__main__":
    main()
