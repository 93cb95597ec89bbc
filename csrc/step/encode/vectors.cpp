#include "step/buffers.h"
#include "step/encode/vector_form.h"

namespace fastqps {

bool write_vectors(const Route& route, const float* rows, std::span<const u32> ids, Slot& slot, std::span<u8> room) {
  const VectorForm form(route, slot);
  if (ids.size() * form.bytes() > room.size()) return false;
  u32 n = 0;
  for (size_t i = 0; i < ids.size(); i++)
    if (!(ids[i] & kNoOwnAnswer)) write_vector(form, rows + i * route.dimensions, room.data() + n++ * form.bytes());
  slot.n_values = n * form.dimensions;
  form.describe(slot);
  return true;
}

}  // namespace fastqps
