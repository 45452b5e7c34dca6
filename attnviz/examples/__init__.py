"""Worked examples: tutorials' lessons as TOML files, and the digits that must come out."""
