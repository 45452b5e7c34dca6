"""Worked examples: lessons of tutorials as TOML files, with the numbers they must give."""
