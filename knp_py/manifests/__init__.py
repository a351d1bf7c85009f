"""Decoded documents to model objects, with every problem found. No files, no policy."""
