"""The demo's little decoder, which corrects simple English sentences. ``make grammar`` trains it from this folder."""
