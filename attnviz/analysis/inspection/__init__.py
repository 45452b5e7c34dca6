"""Looking into the heads of a model: what each does on a sentence, and whether it matters."""
