"""Which operations a model on this device is made of."""

from __future__ import annotations

import torch

from fastqps.devices.cuda.backend import Backend
from fastqps.models.ops import DecodeOps, EncoderOps
from fastqps.models.parameters import Parameters
from fastqps.models.precision import Precision
from fastqps.models.reference_decode_ops import ReferenceDecodeOps
from fastqps.models.reference_encoder_ops import ReferenceEncoderOps


def encoder_ops(backend: Backend, where: Parameters, dtype: torch.dtype, precision: Precision) -> EncoderOps:
    """The kernels; plain torch where there is nothing to run them."""
    if not backend.runs_kernels:
        return ReferenceEncoderOps(dtype, where, precision)
    from fastqps.models.cuda_encoder_ops import CudaEncoderOps

    return CudaEncoderOps(dtype, where, precision)


def decode_ops(backend: Backend, where: Parameters, dtype: torch.dtype, precision: Precision) -> DecodeOps:
    """The kernels; plain torch where there is nothing to run them."""
    if not backend.runs_kernels:
        return ReferenceDecodeOps(dtype, where, precision)
    from fastqps.models.cuda_decode_ops import CudaDecodeOps

    return CudaDecodeOps(dtype, where, precision)
