#include "contract/request_view.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "contract/request_fields.h"

namespace fastqps {
namespace {

// Clears the other members of the oneof, unless `input` is set already: submessages of the same member merge.
void choose_input(RequestView& out, Input input) {
  if (out.input == input) return;
  out.input = input;
  out.text = out.pair_first = out.pair_second = out.token_pieces = {};
  out.token_count = 0;
  out.keep_second = false;
  out.chat = {};
}

// Makes `pieces` reach from its beginning, or if it is empty from `from`, up to `to`.
void extend(std::string_view& pieces, const char* from, const char* to) {
  const char* begin = pieces.empty() ? from : pieces.data();
  pieces = {begin, std::size_t(to - begin)};
}

// ---- the members of the oneof `input`, and what is read twice

struct TextInput : Bytes {
  static FieldError read(WireReader& in, RequestView& out) {
    choose_input(out, Input::kText);
    return NamedText<"text">::read(in, out.text);
  }
};

struct CountedIds : Integer {
  static constexpr bool kPacks = true;
  static bool read(WireReader& in, u32& count) {
    u64 ignored;
    if (!in.varint(&ignored)) return false;
    count++;
    return true;
  }
};
struct TokenIdsInput : Bytes {
  static FieldError read(WireReader& in, RequestView& out) {
    choose_input(out, Input::kTokenIds);
    const char* begin = in.field();
    if (!Submessage<Fields<Field<1, CountedIds>>>::read(in, out.token_count)) return {"token_ids", kDamaged};
    extend(out.token_pieces, begin, in.at());
    return {};
  }
};

struct PairInput : Bytes {
  using Parts = Fields<Field<1, NamedText<"pair.first">, &RequestView::pair_first>,
                       Field<2, NamedText<"pair.second">, &RequestView::pair_second>,
                       Field<3, Named<"pair.keep_second", Bool>, &RequestView::keep_second>>;
  static FieldError read(WireReader& in, RequestView& out) {
    choose_input(out, Input::kPair);
    std::string_view part;
    return in.bytes(&part) ? Parts::parse(part, out, "pair", skip_inside) : FieldError{"pair", kDamaged};
  }
};

struct RoleName : Bytes {
  static FieldError read(WireReader& in, ChatMessage& message) {
    std::string_view name;
    const FieldError error = NamedText<"chat.messages.role">::read(in, name);
    message.role = chat_role(name);
    return error;
  }
};
using MessageFields = Fields<Field<1, RoleName>, Field<2, NamedText<"chat.messages.content">, &ChatMessage::content>>;

struct CountedMessage : Bytes {
  static FieldError read(WireReader& in, ChatView& chat) {
    std::string_view part;
    ChatMessage message;
    chat.count++;
    if (!in.bytes(&part)) return {"chat.messages", kDamaged};
    return MessageFields::parse(part, message, "chat.messages", skip_twice_inside);
  }
};
struct Continues : Bool {
  static bool read(WireReader& in, ChatMode& mode) {
    bool value;
    if (!Bool::read(in, value)) return false;
    mode = value ? ChatMode::kContinue : ChatMode::kGenerate;
    return true;
  }
};

struct ChatInput : Bytes {
  using Parts =
      Fields<Field<1, CountedMessage>, Field<2, Named<"chat.continue_final_message", Continues>, &ChatView::mode>,
             Field<3, NamedText<"chat.variables">, &ChatView::variables>>;
  static FieldError read(WireReader& in, RequestView& out) {
    choose_input(out, Input::kChat);
    const char* begin = in.field();
    std::string_view part;
    if (!in.bytes(&part)) return {"chat", kDamaged};
    extend(out.chat.pieces, begin, in.at());
    return Parts::parse(part, out.chat, "chat", skip_inside);
  }
};

struct Generate : Bytes {
  static FieldError read(WireReader& in, RequestView& out) {
    out.has_generate = true;
    const char* begin = in.field();
    std::string_view part;
    if (!in.bytes(&part)) return {"generate", kDamaged};
    extend(out.generate_pieces, begin, in.at());
    return OptionFields<kGenerateOptions>::parse(part, out.generate, "generate", skip_inside);
  }
};

struct OutputPart : Bytes {
  static FieldError read(WireReader& in, RequestView& out) {
    out.has_output = true;
    std::string_view part;
    if (!in.bytes(&part)) return {"output", kDamaged};
    return OptionFields<kOutputOptions>::parse(part, out.output, "output", skip_inside);
  }
};

using View = RequestView;
using RequestFields = Fields<Field<1, NamedText<"model">, &View::model>, Field<2, TextInput>, Field<3, TokenIdsInput>,
                             Field<4, Named<"request_id", Integer>, &View::request_id>,
                             Field<5, Named<"priority", Integer>, &View::priority>, Field<6, Generate>,
                             Field<7, OutputPart>, Field<8, Named<"timeout_us", Integer>, &View::timeout_us>,
                             Field<9, Named<"truncate", Asked>, &View::truncation>, Field<10, PairInput>,
                             Field<11, NamedText<"tenant">, &View::tenant>, Field<12, NamedText<"group">, &View::group>,
                             Field<13, NamedText<"prompt_name">, &View::prompt_name>, Field<16, ChatInput>>;

// Copies a value to where the message points to, which is then the next place.
template <class Kind>
struct Copied : Kind {
  static constexpr bool kPacks = Kind::kType != WireType::kLength;
  template <class T>
  static bool read(WireReader& in, T*& out) {
    return Kind::read(in, *out++);
  }
};
struct KeptMessage : Bytes {
  static bool read(WireReader& in, std::vector<ChatMessage>& out) {
    std::string_view part;
    return in.bytes(&part) && MessageFields::read(part, out.emplace_back(), skip_twice_inside);
  }
};
struct KeptBias : Bytes {
  static bool read(WireReader& in, TokenBias*& out) {
    std::string_view entry;
    TokenBias bias;
    if (!in.bytes(&entry)) return false;
    if (BiasFields::read(entry, bias, refuse)) *out++ = bias;
    return true;
  }
};
using BiasPieces = Fields<Field<6, Submessage<Fields<Field<kLogitBiasField, KeptBias>>>>>;
using ChatPieces = Fields<Field<16, Submessage<Fields<Field<1, KeptMessage>>>>>;
using TokenPieces = Fields<Field<3, Submessage<Fields<Field<1, Copied<Integer>>>>>>;
template <u32 number>
using TextPieces = Fields<Field<6, Submessage<Fields<Field<number, Copied<Bytes>>>>>>;

// A batch: how many items it has, of which as many are kept as there is room for.
struct Split {
  std::span<std::string_view> items;
  std::size_t given = 0;

  FieldError take(std::string_view item) {
    if (given < items.size()) items[given] = item;
    given++;
    return {};
  }
};

}  // namespace

const char* ReasonText::print(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

FieldError parse_request(std::string_view message, RequestView* view) {
  *view = {};
  return RequestFields::parse(message, *view);
}

void token_ids(const RequestView& request, u32* out) {
  out = std::copy(request.tokens.begin(), request.tokens.end(), out);
  (void)TokenPieces::read(request.token_pieces, out);  // read before, and sound
}

void chat_messages(const RequestView& request, std::vector<ChatMessage>& out) {
  out.assign(request.chat.messages.begin(), request.chat.messages.end());
  (void)ChatPieces::read(request.chat.pieces, out);  // read before, and sound
}

void texts_of(const RequestView& request, OptionTexts GenerateOptions::*list, std::string_view* out) {
  const std::span<const std::string_view> given = (request.generate.*list).given;
  out = std::copy(given.begin(), given.end(), out);
  if (list == &GenerateOptions::stop)
    (void)TextPieces<kStopField>::read(request.generate_pieces, out);
  else
    (void)TextPieces<kChoicesField>::read(request.generate_pieces, out);
}

void logit_bias(const RequestView& request, TokenBias* out) {
  out = std::copy(request.biases.begin(), request.biases.end(), out);
  (void)BiasPieces::read(request.generate_pieces, out);
}

FieldError split_batch(std::string_view message, std::span<std::string_view> items, std::size_t* count,
                       ReasonText& reason) {
  Split split{items};
  FieldError error = Fields<Part<1, &Split::take>>::parse(message, split, "items");
  *count = std::min(split.given, items.size());
  if (!error && split.given > items.size())
    error = {"items", reason.print("%zu items, at most %zu", split.given, items.size())};
  return error;
}

}  // namespace fastqps
