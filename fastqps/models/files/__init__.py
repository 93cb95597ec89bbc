"""The JSON files of a checkpoint: readers, and the rules of their keys. Each key is honoured, irrelevant or refused."""
