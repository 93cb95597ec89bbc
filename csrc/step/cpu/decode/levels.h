// The decoder's kernels of one instruction set, and the scratch memory that they need.
#pragma once
#include "step/cpu/decode/cpu_decode.h"
#include "step/decode/philox.h"

namespace fastqps::step {

u64 scratch_floats(const SlotAttention& job);
inline u64 scratch_floats(const RmsNorm& job) { return job.width; }
inline u64 scratch_floats(const Draw& job) { return u64(job.vocab) + 16; }

struct DecodeKernels {
  void (*rms_norm)(const RmsNorm&, float* scratch);
  void (*attend_slots)(const SlotAttention&, float* scratch);
  void (*gated_silu)(const GatedSilu&);
  void (*sample)(const Draw&, float* scratch);
};

}  // namespace fastqps::step
