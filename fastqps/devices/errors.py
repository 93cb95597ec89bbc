"""What a device can refuse."""

from fastqps.errors import NO_DEVICE, FastqpsError


class DeviceError(FastqpsError):
    """A device, or a number type of it, that does not exist or that this machine lacks. Exit code 3."""

    exit_code = NO_DEVICE
