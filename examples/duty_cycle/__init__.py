"""The duty cycle of a device, found by the tuner and compared with what it has to be."""
