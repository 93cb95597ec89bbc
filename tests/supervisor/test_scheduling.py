"""What the kernel is asked for a thread that answers, read back from the kernel."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastqps.process.scheduling import SLICE_NS, answer_promptly

_SYS_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
_PR_GET_TIMERSLACK = 30
_LINUX_WITH_SLICES = (6, 12)


def asked(policy: int, nice: int) -> tuple[int, int, int, int]:
    """(policy, nice, slice, timer slack) of a thread that has had its policy and nice before it asked."""
    os.sched_setscheduler(0, policy, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    answer_promptly()
    libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(48)
    assert libc.syscall(_SYS_SCHED_GETATTR[platform.machine()], 0, attributes, len(attributes), 0) == 0
    _, policy, _, nice, _, slice_ns, _, _ = struct.unpack("=IIQiIQQQ", attributes)
    return policy, nice, slice_ns, libc.prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0)


@pytest.mark.parametrize(("policy", "nice"), [(os.SCHED_OTHER, 0), (os.SCHED_OTHER, 5), (os.SCHED_BATCH, 0)])
def test_a_thread_that_answers_promptly(policy: int, nice: int) -> None:
    """Its policy and nice stay. In a thread of its own, which ends with what was asked for it."""
    with ThreadPoolExecutor(1) as threads:
        kept_policy, kept_nice, slice_ns, slack_ns = threads.submit(asked, policy, nice).result()
    assert (kept_policy, kept_nice, slack_ns) == (policy, nice, 1)
    linux = tuple(map(int, platform.release().split(".")[:2]))
    if policy == os.SCHED_OTHER and linux >= _LINUX_WITH_SLICES:
        assert slice_ns == SLICE_NS
