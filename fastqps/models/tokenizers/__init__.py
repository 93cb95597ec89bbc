"""Tokenizers: tokenizer.json and the files beside it as transformers applies them, and the tokenizer itself."""
