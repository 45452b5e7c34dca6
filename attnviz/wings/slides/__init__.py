"""PowerPoint slides, made with python-pptx: editable words, and pictures."""
