#include "oip/input_tensor.h"

#include <bit>
#include <cstring>

namespace fastqps::front {

namespace {

bool read_raw_texts(std::string_view raw, std::vector<std::string_view>& texts) {
  while (!raw.empty()) {
    u32 bytes;
    if (raw.size() < sizeof bytes) return false;
    std::memcpy(&bytes, raw.data(), sizeof bytes);
    raw.remove_prefix(sizeof bytes);
    if (raw.size() < bytes) return false;
    texts.push_back(raw.substr(0, bytes));
    raw.remove_prefix(bytes);
  }
  return true;
}

template <class Number>
bool read_raw_numbers(std::string_view raw, std::vector<i64>& numbers) {
  static_assert(std::endian::native == std::endian::little);
  if (raw.size() % sizeof(Number)) return false;
  numbers.reserve(raw.size() / sizeof(Number));
  for (size_t at = 0; at < raw.size(); at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, raw.data() + at, sizeof number);
    numbers.push_back(number);
  }
  return true;
}

}  // namespace

// Memory for many elements is not kept: most requests have few.
void InputTensor::clear() {
  constexpr size_t kKept = 1 << 16;
  given = false;
  datatype = {};
  dimensions = 0;
  if (texts.capacity() > kKept) texts = {};
  if (numbers.capacity() > kKept) numbers = {};
  texts.clear();
  numbers.clear();
}

bool InputTensor::read_raw(std::string_view raw) {
  if (holds_text()) return read_raw_texts(raw, texts);
  if (datatype == "INT64") return read_raw_numbers<i64>(raw, numbers);
  if (datatype == "INT32") return read_raw_numbers<i32>(raw, numbers);
  return true;
}

}  // namespace fastqps::front
