"""The supervisor process: everything in a server that is not on the path of a request."""
