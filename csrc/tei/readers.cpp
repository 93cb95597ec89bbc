#include "tei/readers.h"

#include "text/unicode/utf8.h"
#include "wire/wire.h"

namespace fastqps::front {

namespace {

constexpr const char* kDamaged = "not valid protobuf";
constexpr const char* kNotUtf8 = "not valid UTF-8";

FieldError read_text(WireReader& in, std::string_view* text, const char* field) {
  if (!in.bytes(text)) return {"", kDamaged};
  return text::valid_utf8(*text) ? FieldError{} : FieldError{field, kNotUtf8};
}

template <class Set>
FieldError read_number(WireReader& in, Set set) {
  u64 value;
  if (!in.varint(&value)) return {"", kDamaged};
  set(value);
  return {};
}

template <class Flag>  // bool, or an optional one
auto to_flag(Flag& flag) {
  return [&flag](u64 value) { flag = value != 0; };
}
auto to_direction(TruncationDirection& direction) {
  return [&direction](u64 value) { direction = TruncationDirection(i32(value)); };
}

// Calls read(tag, in, known) for each field, which returns what is wrong, and clears `known` for a field that it does
// not know.
template <class Read>
FieldError read_fields(std::span<const u8> message, Read read) {
  for (WireReader in({reinterpret_cast<const char*>(message.data()), message.size()}); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return {"", kDamaged};
    bool known = true;
    if (const FieldError error = read(tag, in, known)) return error;
    if (!known && !in.skip(tag, kWireDepthMax)) return {"", kDamaged};
  }
  return {};
}

// RerankRequest and RerankStreamRequest. text(): where the next text goes.
template <class Text>
FieldError read_rank_fields(std::span<const u8> message, std::string_view& query, const char* text_field, Text text,
                            TextOptions& options, bool& return_text) {
  return read_fields(message, [&](u32 tag, WireReader& in, bool& known) -> FieldError {
    switch (tag) {
      case length_tag(1):
        return read_text(in, &query, "query");
      case length_tag(2):
        return read_text(in, text(), text_field);
      case varint_tag(3):
        return read_number(in, to_flag(options.truncation.asked));
      case varint_tag(4):
        return read_number(in, to_flag(options.raw_scores));
      case varint_tag(5):
        return read_number(in, to_flag(return_text));
      case varint_tag(6):
        return read_number(in, to_direction(options.direction));
    }
    known = false;
    return {};
  });
}

}  // namespace

FieldError EmbedReader::read(std::span<const u8> message, const CallInfo&, ReasonText&) {
  text_ = {};
  options_ = {};
  return read_fields(message, [this](u32 tag, WireReader& in, bool& known) -> FieldError {
    switch (tag) {
      case length_tag(1):
        return read_text(in, &text_, "inputs");
      case varint_tag(2):
        return read_number(in, to_flag(options_.truncation.asked));
      case varint_tag(3):
        return read_number(in, to_flag(options_.normalize));
      case varint_tag(4):
        return read_number(in, to_direction(options_.direction));
      case length_tag(5):
        return read_text(in, &options_.prompt_name, "prompt_name");
      case varint_tag(6):
        return read_number(in, [&](u64 value) { options_.dimensions = u32(value); });
    }
    known = false;
    return {};
  });
}

FieldError EmbedReader::item(u32, RequestView& view) {
  view.input = Input::kText;
  view.text = text_;
  view.output.timings = true;
  return requests_.embed(options_, view, item_reason_);
}

FieldError EmbedSparseReader::read(std::span<const u8> message, const CallInfo&, ReasonText&) {
  text_ = {};
  options_ = {};
  return read_fields(message, [this](u32 tag, WireReader& in, bool& known) -> FieldError {
    switch (tag) {
      case length_tag(1):
        return read_text(in, &text_, "inputs");
      case varint_tag(2):
        return read_number(in, to_flag(options_.truncation.asked));
      case varint_tag(3):
        return read_number(in, to_direction(options_.direction));
      case length_tag(4):
        return read_text(in, &options_.prompt_name, "prompt_name");
    }
    known = false;
    return {};
  });
}

FieldError EmbedSparseReader::item(u32, RequestView& view) {
  view.input = Input::kText;
  view.text = text_;
  view.output.timings = true;
  return requests_.embed_sparse(options_, view, item_reason_);
}

FieldError PredictReader::read(std::span<const u8> message, const CallInfo&, ReasonText&) {
  texts_.clear();
  if (!pairs_) texts_.emplace_back();
  options_ = {};
  return read_fields(message, [this](u32 tag, WireReader& in, bool& known) -> FieldError {
    switch (tag) {
      case length_tag(1):
        return read_text(in, pairs_ ? &texts_.emplace_back() : &texts_[0], "inputs");
      case varint_tag(2):
        return read_number(in, to_flag(options_.truncation.asked));
      case varint_tag(3):
        return read_number(in, to_flag(options_.raw_scores));
      case varint_tag(4):
        return read_number(in, to_direction(options_.direction));
    }
    known = false;
    return {};
  });
}

FieldError RerankReader::read(std::span<const u8> message, const CallInfo&, ReasonText& reason) {
  query_ = {};
  texts_.clear();
  options_ = {};
  bool return_text = false;
  const auto text = [this] { return &texts_.emplace_back(); };
  if (const FieldError error = read_rank_fields(message, query_, "texts", text, options_, return_text)) return error;
  if (const FieldError error = requests_.check_ranks(options_.model, reason)) return error;
  if (texts_.empty()) return {"texts", "0 texts, at least 1"};
  if (texts_.size() > items_max_) return {"texts", reason.print("%zu texts, at most %u", texts_.size(), items_max_)};
  context_.assign(1, char(return_text ? RankContext::kReturnText : 0));
  if (return_text)
    for (const std::string_view text : texts_) RankContext::add_text(context_, text);
  return {};
}

FieldError RerankStreamReader::read(std::span<const u8> message, const CallInfo&, ReasonText& reason) {
  query_ = text_ = {};
  options_ = {};
  context_.clear();
  bool return_text = false;
  const auto text = [this] { return &text_; };
  if (const FieldError error = read_rank_fields(message, query_, "text", text, options_, return_text)) return error;
  if (before_.empty()) {
    context_.assign(
        1, char((return_text ? RankContext::kReturnText : 0) | (options_.raw_scores ? RankContext::kRawScores : 0)));
  }
  const std::string_view first = before_.empty() ? context_ : before_;
  options_.raw_scores = u8(first[0]) & RankContext::kRawScores;
  if (!RankContext::returns_text(first)) return {};
  if (before_.size() + text_.size() > RankContext::kBytesMax)
    return {"return_text", reason.print("the stream has texts of more than %zu bytes to return, at most %zu",
                                        RankContext::kBytesMax, RankContext::kBytesMax)};
  RankContext::add_text(context_, text_);
  return {};
}

}  // namespace fastqps::front
