// The beginning of an answer's context (RequestReader::context()): a struct, as its bytes.
#pragma once
#include <cstring>
#include <string_view>
#include <type_traits>

namespace fastqps {

template <class Head>
std::string_view bytes_of(const Head& head) {
  static_assert(std::is_trivially_copyable_v<Head>);
  return {reinterpret_cast<const char*>(&head), sizeof head};
}
template <class Head>
Head head_of(std::string_view context) {
  Head head;
  std::memcpy(&head, context.data(), sizeof head);
  return head;
}
template <class Head>
std::string_view behind(std::string_view context) {
  return context.substr(sizeof(Head));
}

}  // namespace fastqps
