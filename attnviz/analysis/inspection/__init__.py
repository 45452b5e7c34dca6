"""The heads of a model on a sentence: maps, patterns, and what ablation changes."""
