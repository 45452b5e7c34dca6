"""Models in GGUF files, as llama.cpp reads them: their config, tokenizer and weights."""
