"""The operations of a model, by device. ``interface`` says what each device must bring."""
