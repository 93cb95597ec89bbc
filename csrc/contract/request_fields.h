// The options of a request as fields of a message: the rows of contract/options.h, read.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>

#include "contract/fields.h"

namespace fastqps {

// ---- how a value of each type is read

struct CountedText : Bytes {
  static FieldError read(WireReader& in, OptionTexts& texts) {
    std::string_view text;
    texts.count++;
    return NamedText<"">::read(in, text);
  }
};
struct OneText : Bytes {
  static FieldError read(WireReader& in, std::string_view& text) { return NamedText<"">::read(in, text); }
};
struct IdsOfList : Integer {
  static constexpr bool kPacks = true;
  static bool read(WireReader& in, IdList& list) {
    u32 id;
    if (!Integer::read(in, id)) return false;
    list.add(id);
    return true;
  }
};
// An entry of the map. One with fields that are not known is left out, as protobuf's runtime does.
using BiasFields = Fields<Field<1, Integer, &TokenBias::id>, Field<2, Fixed32, &TokenBias::bias>>;
struct CountedBias : Bytes {
  static bool read(WireReader& in, BiasCount& biases) {
    std::string_view entry;
    TokenBias bias;
    if (!in.bytes(&entry)) return false;
    if (BiasFields::read(entry, bias, refuse)) return ++biases.count;
    return BiasFields::read(entry, bias, skip_twice_inside);
  }
};
template <class T>
struct KindOf : std::type_identity<Integer> {};
template <>
struct KindOf<bool> : std::type_identity<Bool> {};
template <>
struct KindOf<std::optional<bool>> : std::type_identity<Bool> {};
template <>
struct KindOf<float> : std::type_identity<Fixed32> {};
template <>
struct KindOf<IdList> : std::type_identity<IdsOfList> {};
template <>
struct KindOf<OptionTexts> : std::type_identity<CountedText> {};
template <>
struct KindOf<BiasCount> : std::type_identity<CountedBias> {};
template <>
struct KindOf<std::string_view> : std::type_identity<OneText> {};

struct Asked : Bool {
  static bool read(WireReader& in, Truncation& truncation) { return Bool::read(in, truncation.asked); }
};

// The option of a row. A text that is wrong is named by the option's path, anything else by that of the whole message.
template <const auto& rows, size_t place>
struct OptionField {
  static constexpr const auto& kRow = std::get<place>(rows);
  using Value = typename std::decay_t<decltype(kRow)>::Value;
  using Wire = Field<kRow.number, typename KindOf<Value>::type, kRow.member>;

  static constexpr bool is(u32 tag) { return Wire::is(tag); }
  template <class Message>
  static auto read(WireReader& in, u32 tag, Message& message) {
    if constexpr (requires { message.set_given(kRow.number); })
      if (kRow.is(kOptional)) message.set_given(kRow.number);
    auto outcome = Wire::read(in, tag, message);
    if constexpr (std::is_same_v<decltype(outcome), FieldError>) outcome.field = kRow.path;
    return outcome;
  }
};

template <const auto& rows, class Places = std::make_index_sequence<std::tuple_size_v<std::decay_t<decltype(rows)>>>>
struct OptionFields;
template <const auto& rows, size_t... place>
struct OptionFields<rows, std::index_sequence<place...>> : Fields<OptionField<rows, place>...> {};

}  // namespace fastqps
