// The decoder's kernels for one instruction set; included by cpu_kernels.h. The order matters.
// clang-format off
#include "step/cpu/decode/rows_kernel.h"
#include "step/cpu/decode/cache_kernel.h"
#include "step/cpu/decode/single_kernel.h"
#include "step/cpu/decode/tiles_kernel.h"
#include "step/cpu/decode/attention_kernel.h"
#include "step/cpu/decode/sample_kernel.h"
// clang-format on

void rms_norm(const RmsNorm& job, float* scratch) {
  job.number == Number::kFloat32 ? rms_norm_rows<float>(job, scratch) : rms_norm_rows<u16>(job, scratch);
}

void attend_slots(const SlotAttention& job, float* scratch) {
  job.number == Number::kFloat32 ? attend_runs<float>(job, scratch) : attend_runs<u16>(job, scratch);
}

void gated_silu(const GatedSilu& job) {
  job.number == Number::kFloat32 ? gated_silu_rows<float>(job) : gated_silu_rows<u16>(job);
}

void sample(const Draw& job, float* scratch) {
  job.number == Number::kFloat32 ? sample_runs<float>(job, scratch) : sample_runs<u16>(job, scratch);
}

const DecodeKernels kDecodeKernels = {rms_norm, attend_slots, gated_silu, sample};
