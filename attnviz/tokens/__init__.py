"""From a text to Tokens: a file for each family of tokenizers, and a table of them all."""
