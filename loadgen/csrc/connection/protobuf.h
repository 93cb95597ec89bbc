// The little of protobuf's wire format that is needed to put a number into a message and to find one again, without
// knowing the schema.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "types.h"

namespace loadgen {

constexpr size_t kVarintFieldBytesMax = 15;  // a tag of a field number below 2**29, and a value

// Writes a varint field; the number of bytes. `to` has kVarintFieldBytesMax.
size_t write_varint_field(u8* to, u32 field, u64 value);

// The varint at a path of field numbers: all but the last are messages. The last one of a field holds, as in protobuf.
// Nothing if it is absent or the message is broken.
std::optional<u64> find_varint(std::string_view message, std::span<const u32> path);

}  // namespace loadgen
