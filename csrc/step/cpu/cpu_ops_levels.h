// The compiled copies of the kernels, one for each instruction set.
#pragma once
#include <vector>

#include "core/philox.h"
#include "step/cpu/cpu_decode.h"
#include "step/cpu/cpu_ops.h"

namespace fastqps::step {

// Columns of a head and rows of an item are padded to multiples of this in scratch memory.
inline constexpr u32 kColumns = 16;
// Rows of a bag's table that are asked for before they are added.
inline constexpr u32 kRowsAhead = 8;
// A thread must have at least so many bytes of rows to be worth waking.
inline constexpr u64 kThreadBytesMin = 32 << 10;

// Floats of scratch memory, on a cache line's boundary, that a job needs.
u64 scratch_floats(const Attention& job);
inline u64 scratch_floats(const Norm& norm) { return 2 * u64(norm.width); }
u64 scratch_floats(const Bags& job);
u64 scratch_floats(const SlotAttention& job);
inline u64 scratch_floats(const RmsNorm& job) { return job.width; }
inline u64 scratch_floats(const TokenEmbedding& job) { return 2 * u64(job.width); }
inline u64 scratch_floats(const Draw& job) { return u64(job.vocab) + 16; }

struct Kernels {
  const char* name;
  void (*attend)(const Attention&, float* scratch);
  void (*normalize)(const Normalization&, float* scratch);
  void (*embed)(const Embedding&, float* scratch);
  void (*means)(const ItemRows&, float* scratch);
  void (*maxima)(const ItemRows&, float* scratch);
  void (*project)(const Projection&);
  void (*mean_bags)(const Bags&, float* scratch);
  // A decoder's.
  void (*rms_norm)(const RmsNorm&, float* scratch);
  void (*place_rows)(const TokenEmbedding&, float* scratch);
  void (*attend_slots)(const SlotAttention&, float* scratch);
  void (*gate)(const Gate&);
  void (*cap)(const Cap&);
  void (*sample)(const Draw&, float* scratch);
};

namespace baseline {
extern const Kernels kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx512_bf16 {
extern const Kernels kKernels;
}
#endif

// The levels that this machine can run, best first.
std::vector<const Kernels*> cpu_ops_levels();
const Kernels& chosen_kernels();

// Memory for one call, kept by its thread and grown when a larger job comes.
float* scratch(u64 n_floats);

}  // namespace fastqps::step
