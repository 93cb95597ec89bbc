"""The messages of the gRPC API as Python sees them: requests, answers, reflection, status codes. Imports no torch."""
