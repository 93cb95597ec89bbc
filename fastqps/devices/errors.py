"""The errors of devices: requests that they refuse, and faults."""

from fastqps.errors import DEVICE_FAULT, NO_DEVICE, FastqpsError


class DeviceError(FastqpsError):
    """A device, or a number type of it, that does not exist or that this machine lacks. Exit code 3."""

    exit_code = NO_DEVICE


class DeviceFault(FastqpsError):
    """The device has an error that this process cannot clear, so every further call fails."""

    exit_code = DEVICE_FAULT
