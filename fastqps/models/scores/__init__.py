"""Labels and rankings by a decoder's next token: which tokens are labels, and the text around what is scored."""
