"""Which CPUs the processes of a server get, on machines that are not here."""

from __future__ import annotations

import pytest

from fastqps.host.gpus import Gpu
from fastqps.supervisor.placement import Placement, pinned

pytestmark = pytest.mark.compute


def gpu(index: int, *cpus: int) -> Gpu:
    return Gpu(index, f"GPU-{index}", "a GPU", 1 << 30, f"0000:0{index}:00.0", (9, 0), cpus)


NODE0, NODE1 = gpu(0, 0, 1, 2, 3), gpu(1, 4, 5, 6, 7)
NOWHERE = gpu(0)


@pytest.mark.parametrize(
    ("cpus", "doors", "gpus", "own_doors", "own_dispatchers"),
    [
        (range(8), 2, [None, None], (0, 1), (2, 3)),
        (range(8), 2, [NODE1, NODE1], (0, 1), (4, 5)),
        (range(8), 2, [NODE0, NODE0], (4, 5), (0, 1)),
        (range(8), 1, [NODE0, NODE1], (1,), (0, 4)),  # each GPU has a node: the doors take what is left of one
        (range(8), 2, [NODE1] * 5, (1, 2), (4, 5, 6, 7, 0)),  # more dispatchers than CPUs near their GPU
        (range(8), 3, [NOWHERE, NOWHERE], (2, 3, 4), (0, 1)),  # the system does not say where it is
        ((0, 1, 6, 7), 1, [NODE0], (6,), (0,)),  # a container's share of the machine
        ((4, 5, 6, 7), 1, [NODE0], (5,), (4,)),  # no CPU near it may be used
        (range(8), 2, [NODE1, None], (0, 1), (4, 2)),
        (range(4), 1, [NODE0, NODE0], (2,), (0, 1)),  # all are near; one stays for the supervisor
        (range(4), 2, [NODE0, NODE0], None, None),
        (range(2), 1, [NODE0], None, None),
    ],
)
def test_placement(cpus, doors, gpus, own_doors, own_dispatchers) -> None:
    def alone(found, count):
        return tuple((cpu,) for cpu in found) if found is not None else ((),) * count

    expected = Placement(alone(own_doors, doors), alone(own_dispatchers, len(gpus)))
    assert pinned(tuple(cpus), doors, gpus) == expected
