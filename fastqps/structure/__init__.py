"""Structure of generated texts: which tokens a JSON schema, a regular expression or a grammar allows next.

The automata are llguidance's, imported when the first structure is asked for.
"""
