#include "step/buffers.h"
#include "step/encode/vector_form.h"

namespace fastqps {

void write_vectors(const Segment& segment, const Route& route, const float* rows, u32 n_tokens, Slot& slot) {
  const VectorForm form(route, slot);
  const u32* ids = segment.ids(slot);
  u8* out = segment.answer(slot);
  u32 n = 0;
  for (u32 i = 0; i < n_tokens; i++)
    if (!(ids[i] & kNoOwnAnswer)) write_vector(form, rows + u64(i) * route.dimensions, out + n++ * form.bytes());
  slot.n_values = n * form.dimensions;
  form.describe(slot);
}

}  // namespace fastqps
