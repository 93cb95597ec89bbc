"""The front door process: it starts the native event loop and answers its rare calls. It never imports torch."""
