"""Tokenizers, which cut a text into Tokens: a file for each family, and a table of all."""
