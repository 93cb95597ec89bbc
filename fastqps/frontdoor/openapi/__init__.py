"""The OpenAPI document of the HTTP port, ``GET /openapi.json``: one module for each protocol."""
