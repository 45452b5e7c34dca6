"""Builds the tokenizer of a GGUF file from its vocabulary.

A vocabulary is of bytes spelled as letters, with merges (`gpt2`), or of SentencePiece, with a score
for each token (`llama`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnviz.errors import AttnvizError, model_error
from attnviz.machine import memory
from attnviz.wings.gguf.file import CONVERT_HINT, GGUFFile, plain_or_quoted, quoted

SPACE_MARK = "▁"
MAX_MERGED_LETTERS = 512  # SentencePiece learns no longer token
CONTROL, USER_DEFINED = 3, 4  # types of tokens
END_KEYS = ("eos", "eot", "eom")  # end of text, of a turn, of a message
END_NAMES = frozenset((  # of tokens that end what a model writes, whatever the header says of them
    "</s>", "<eos>", "[EOS]", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|end|>",
    "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<turn|>", "<EOT>", "_<EOT>", "[EOT]",
    "<end_of_utterance>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|tool_response>",
))  # fmt: skip
# How a text is split before merges, by the name of the splitter in the file. Spaces begin words.
CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
GPT2_SPLIT = rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
ONE_DIGIT = r"\p{N}"
LLAMA3_SPLIT = (
    rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
GPT4O_SPLIT = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+(?i:{CONTRACTIONS})?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*(?i:{CONTRACTIONS})?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_CODER_SPLITS = (
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
    ONE_DIGIT,
)
TEKKEN_SPLIT = GPT4O_SPLIT.replace(f"(?i:{CONTRACTIONS})?", "").replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True)
class Splitter:
    """How a text is split into words before merges: by patterns, one after another."""

    patterns: tuple[str, ...]
    whole_words: bool = False  # a word that is a token is not merged from letters
    composed: bool = False  # letters and accents are put together first (NFC)
    begins: bool = False  # a begin token is put before a text, unless the file says otherwise


QWEN2 = Splitter((QWEN2_SPLIT,), composed=True)
SPLITTERS_BY_NAMES = {
    "default gpt-2 gpt2 olmo": Splitter((GPT2_SPLIT,)),
    "smollm starcoder refact command-r codeshell exaone": Splitter((ONE_DIGIT, GPT2_SPLIT)),
    "llama3 llama-v3 llama-bpe falcon3": Splitter((LLAMA3_SPLIT,), whole_words=True, begins=True),
    "smaug-bpe dbrx": Splitter((LLAMA3_SPLIT,)),
    "qwen2 deepseek-r1-qwen": QWEN2,
    "deepseek-coder": Splitter(DEEPSEEK_CODER_SPLITS),
    "stablelm2 megrez": QWEN2,
    "gpt-4o": Splitter((GPT4O_SPLIT,)),
    "tekken": Splitter((TEKKEN_SPLIT,), whole_words=True, begins=True),
}
SPLITTERS = {
    name: splitter for names, splitter in SPLITTERS_BY_NAMES.items() for name in names.split()
}


def refuse_unusable_vocabulary(file: GGUFFile) -> None:
    """Refuse a vocabulary that no tokenizer can be built from, by the header alone: of an unknown
    kind or rule, of more tokens than the model has vectors for, without merges or scores."""
    kind, tokens = file.text("tokenizer.ggml.model"), file.texts("tokenizer.ggml.tokens")
    vectors = file.tensor("token_embd.weight").shape[0]
    if len(tokens) > vectors:
        raise file.wrong_tensors(f"has {len(tokens):,} tokens, and vectors for {vectors:,} of them")
    if kind not in TOKENIZER_BUILDERS:
        raise model_error(
            f"the vocabulary of '{file.path}' is of the kind {plain_or_quoted(kind)}, which "
            "attnviz does not know",
            f"use a model whose vocabulary is one of these: {', '.join(TOKENIZER_BUILDERS)}",
        )
    _special_tokens(file, tokens)
    _token_types(file, tokens)
    if kind == "llama":
        file.numbers("tokenizer.ggml.scores", len(tokens))
        return
    rule = file.text("tokenizer.ggml.pre", "default")
    if rule not in SPLITTERS:
        raise model_error(
            f"'{file.path}' cannot be read: its text is cut by the rule {quoted(rule)}, which "
            "attnviz does not know",
            f"use a model with one of these rules (tokenizer.ggml.pre): {', '.join(SPLITTERS)}",
        )
    if not file.has("tokenizer.ggml.merges"):
        raise model_error(
            f"'{file.path}' has a vocabulary without merges, so no text can be cut into its tokens",
            CONVERT_HINT,
        )


def build_tokenizer(file: GGUFFile) -> Any:
    """Return the tokenizer of a file as one of transformers, with special tokens and chat template.

    Refuses a vocabulary that no tokenizer can be built from.
    """
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    refuse_unusable_vocabulary(file)
    tokens = file.texts("tokenizer.ggml.tokens")
    backend, begins = TOKENIZER_BUILDERS[file.text("tokenizer.ggml.model")](file, tokens)
    added: list[Any] = [
        AddedToken(token, normalized=False, special=token_type == CONTROL or token in END_NAMES)
        for token, token_type in zip(tokens, _token_types(file, tokens), strict=False)
        if token_type in (CONTROL, USER_DEFINED) and token
    ]
    backend.add_tokens(added)
    specials = _special_tokens(file, tokens)
    _add_ends(file, backend, specials, begins)
    template = file.text("tokenizer.chat_template", "")
    tokenizer_class: Any = PreTrainedTokenizerFast
    return tokenizer_class(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=False,
        chat_template=template or None,
        **specials,
    )


def find_end_ids(file: GGUFFile) -> list[int]:
    """Return the ids of the tokens that end what a model writes, as llama.cpp finds them.

    Those are the ends of a text, a turn and a message in the header, and all special tokens that
    are known to end a turn by their names.
    """
    tokens = file.texts("tokenizer.ggml.tokens")
    keys = [f"tokenizer.ggml.{name}_token_id" for name in END_KEYS]
    end_ids = {file.count(key, least=0, most=len(tokens) - 1) for key in keys if file.has(key)}
    listed = file.facts.get("tokenizer.ggml.eos_token_ids", ())  # which Ollama writes
    end_ids |= {number for number in listed if number in range(len(tokens))}
    types = _token_types(file, tokens) or [CONTROL] * len(tokens)
    end_ids |= {
        number
        for number, (token, token_type) in enumerate(zip(tokens, types, strict=True))
        if token in END_NAMES and token_type in (CONTROL, USER_DEFINED)
    }
    return sorted(end_ids)


def _token_types(file: GGUFFile, tokens: list[str]) -> Sequence[int]:
    key = "tokenizer.ggml.token_type"
    return file.numbers(key, len(tokens)) if file.has(key) else ()


def _special_tokens(file: GGUFFile, tokens: list[str]) -> dict[str, str]:
    """Return the begin, end, unknown and padding token of a file, those that it has."""
    specials = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        if file.has(f"tokenizer.ggml.{key}_token_id"):
            number = file.count(f"tokenizer.ggml.{key}_token_id", least=0, most=len(tokens) - 1)
            specials[f"{name}_token"] = tokens[number]
    return specials


def _add_ends(file: GGUFFile, backend: Any, specials: Mapping[str, str], begins: bool) -> None:
    """Let a tokenizer put the begin token before a text, or the end token after it."""
    from tokenizers.processors import TemplateProcessing

    ends = []
    for name, default in (("bos", begins), ("eos", False)):
        is_added = file.flag(f"tokenizer.ggml.add_{name}_token", default)
        token = specials.get(f"{name}_token")
        ends.append([token] if is_added and token else [])
    first, last = ends
    if first or last:
        backend.post_processor = TemplateProcessing(
            single=[*first, "$A", *last],
            pair=[*first, "$A", *last, *first, "$B:1", *last],
            special_tokens=[(token, backend.token_to_id(token)) for token in {*first, *last}],
        )


def _byte_level_tokenizer(file: GGUFFile, tokens: list[str]) -> tuple[Any, bool]:
    """Return the tokenizer of a vocabulary of bytes with merges, and whether texts begin with a
    begin token unless the file says otherwise."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    splitter = SPLITTERS[file.text("tokenizer.ggml.pre", "default")]
    parts = (merge.partition(" ") for merge in file.texts("tokenizer.ggml.merges"))
    merges = [(left, right) for left, _, right in parts]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    try:
        model = models.BPE(vocabulary, merges, ignore_merges=splitter.whole_words)
    except Exception as error:  # of the package, for a merge of what is no token
        if memory.is_out_of_memory(error):
            raise
        raise _other_merges_error(file, vocabulary, merges) from None
    backend = Tokenizer(model)
    if splitter.composed:
        backend.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in splitter.patterns]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    backend.decoder = decoders.ByteLevel()
    return backend, splitter.begins


def _sentencepiece_tokenizer(file: GGUFFile, tokens: list[str]) -> tuple[Any, bool]:
    """Return the tokenizer of a vocabulary with scores, and True, as texts have a begin token.

    A token of more than `MAX_MERGED_LETTERS` has an id, but no text is merged to it: to cut it in
    all ways would take time that grows with the square of its length.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = file.numbers("tokenizer.ggml.scores", len(tokens))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges = sorted(
        (-score, number, len(token[:cut]), token[:cut], token[cut:])
        for number, (token, score) in enumerate(zip(tokens, scores, strict=True))
        if len(token) <= MAX_MERGED_LETTERS
        for cut in range(1, len(token))
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    )
    unknown = file.count("tokenizer.ggml.unknown_token_id", 0, least=0, most=len(tokens) - 1)
    backend = Tokenizer(
        models.BPE(
            vocabulary,
            [(left, right) for *_, left, right in merges],
            unk_token=tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    spaces = normalizers.Replace(" ", SPACE_MARK)
    has_prefix = file.flag("tokenizer.ggml.add_space_prefix", True)
    prefix = [normalizers.Prepend(SPACE_MARK)] * has_prefix
    backend.normalizer = normalizers.Sequence([*prefix, spaces])
    strip = [decoders.Strip(" ", 1, 0)] * has_prefix
    backend.decoder = decoders.Sequence(
        [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return backend, True


def _other_merges_error(
    file: GGUFFile, vocabulary: Mapping[str, int], merges: list[tuple[str, str]]
) -> AttnvizError:
    """Return the error for merges that are not of the vocabulary: it names the first of them."""
    words = (word for pair in merges for word in (*pair, "".join(pair)) if word not in vocabulary)
    return model_error(
        f"'{file.path}' has merges of another vocabulary than its own: {quoted(next(words, ''))} "
        "is in its merges, and none of its tokens",
        "use another file of this model, or a folder that transformers wrote",
    )


TOKENIZER_BUILDERS: dict[str, Callable[[GGUFFile, list[str]], tuple[Any, bool]]] = {
    "gpt2": _byte_level_tokenizer,
    "llama": _sentencepiece_tokenizer,
}
