// Writes an answer that says why there is none.
#pragma once
#include <algorithm>
#include <cstring>
#include <string_view>

#include "contract/status.h"
#include "core/segment.h"

namespace fastqps {

inline void write_refusal(const Segment& segment, StatusCode code, std::string_view message, u32 retry_after_ms,
                          Slot& slot) {
  constexpr size_t kMessageMax = 400;
  const std::span<u8> room = segment.answer_room(slot);
  slot.status = u16(code);
  slot.batch_items = 0;
  slot.kind = Answer::kNone;
  if (room.size() < sizeof retry_after_ms) return;
  slot.kind = Answer::kRefusal;
  slot.n_values = u32(std::min({message.size(), kMessageMax, room.size() - sizeof retry_after_ms}));
  std::memcpy(room.data(), &retry_after_ms, sizeof retry_after_ms);
  std::copy_n(message.data(), slot.n_values, room.data() + sizeof retry_after_ms);
}

}  // namespace fastqps
