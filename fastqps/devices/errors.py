"""What a device can refuse."""


class DeviceError(Exception):
    """A device, or a number type of it, that does not exist or that this machine lacks. Exit code 3."""
