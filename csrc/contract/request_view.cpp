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
}

// Makes `pieces` reach from its beginning, or if it is empty from `from`, up to `to`.
void extend(std::string_view& pieces, const char* from, const char* to) {
  const char* begin = pieces.empty() ? from : pieces.data();
  pieces = {begin, std::size_t(to - begin)};
}

// The fields that hold something to read twice or a message of their own. `start` is where the field's tag is.
FieldError read_part(WireReader& in, u32 tag, const char* start, RequestView& out) {
  std::string_view part;
  switch (tag) {
    case length_tag(3):
      choose_input(out, Input::kTokenIds);
      if (!in.bytes(&part) || !read_token_ids(part, [&](u32) { out.token_count++; })) return {"token_ids", kDamaged};
      extend(out.token_pieces, start, in.at());
      return {};
    case length_tag(6):
      out.has_generate = true;
      if (!in.bytes(&part)) return {"generate", kDamaged};
      extend(out.generate_pieces, start, in.at());
      return read_options<kGenerateOptions>(part, "generate", out.generate);
    case length_tag(7):
      out.has_output = true;
      if (!in.bytes(&part)) return {"output", kDamaged};
      return read_options<kOutputOptions>(part, "output", out.output);
    case length_tag(10):
      choose_input(out, Input::kPair);
      if (!in.bytes(&part)) return {"pair", kDamaged};
      return read_pair(part, out);
    default:
      return in.skip(tag, kRequestDepth) ? FieldError{} : FieldError{"", kDamaged};
  }
}

// Calls `take(part)` for each length-delimited field `tag` of `pieces`, which were read before and are sound.
template <class Take>
void each_piece(std::string_view pieces, u32 wanted, Take take) {
  for (WireReader in(pieces); !in.done();) {
    u32 tag;
    std::string_view part;
    if (!in.tag(&tag)) return;
    if (tag != wanted) {
      if (!in.skip(tag, kRequestDepth)) return;
    } else if (in.bytes(&part)) {
      take(part);
    } else {
      return;
    }
  }
}

}  // namespace

const char* ReasonText::print(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return text;
}

FieldError parse_request(std::string_view message, RequestView* view) {
  RequestView& out = *view;
  out = {};
  for (WireReader in(message); !in.done();) {
    const char* start = in.at();
    u32 tag;
    if (!in.tag(&tag)) return {"", kDamaged};
    switch (tag) {
      case length_tag(1):
        if (const char* why = read_string(in, &out.model)) return {"model", why};
        break;
      case length_tag(2):
        choose_input(out, Input::kText);
        if (const char* why = read_string(in, &out.text)) return {"text", why};
        break;
      case varint_tag(4):
        if (!in.varint(&out.request_id)) return {"request_id", kDamaged};
        break;
      case varint_tag(5):
        if (!read_i32(in, &out.priority)) return {"priority", kDamaged};
        break;
      case varint_tag(8):
        if (!in.varint(&out.timeout_us)) return {"timeout_us", kDamaged};
        break;
      case varint_tag(9):
        if (!read_bool(in, &out.truncation.asked.emplace())) return {"truncate", kDamaged};
        break;
      case length_tag(11):
        if (const char* why = read_string(in, &out.tenant)) return {"tenant", why};
        break;
      case length_tag(12):
        if (const char* why = read_string(in, &out.group)) return {"group", why};
        break;
      case length_tag(13):
        if (const char* why = read_string(in, &out.prompt_name)) return {"prompt_name", why};
        break;
      default:
        if (const FieldError error = read_part(in, tag, start, out)) return error;
    }
  }
  return {};
}

void token_ids(const RequestView& request, u32* out) {
  out = std::copy(request.tokens.begin(), request.tokens.end(), out);
  each_piece(request.token_pieces, length_tag(3),
             [&](std::string_view part) { read_token_ids(part, [&](u32 id) { *out++ = id; }); });
}

void stop_strings(const RequestView& request, std::string_view* out) {
  out = std::copy(request.stops.begin(), request.stops.end(), out);
  each_piece(request.generate_pieces, length_tag(6), [&](std::string_view part) {
    each_piece(part, length_tag(kStopField), [&](std::string_view stop) { *out++ = stop; });
  });
}

FieldError split_batch(std::string_view message, std::span<std::string_view> items, std::size_t* count,
                       ReasonText& reason) {
  *count = 0;
  std::size_t given = 0;
  for (WireReader in(message); !in.done();) {
    u32 tag;
    if (!in.tag(&tag)) return {"", kDamaged};
    if (tag != length_tag(1)) {
      if (!in.skip(tag, kRequestDepth)) return {"", kDamaged};
      continue;
    }
    std::string_view item;
    if (!in.bytes(&item)) return {"items", kDamaged};
    if (given++ < items.size()) items[(*count)++] = item;
  }
  if (given > items.size()) return {"items", reason.print("%zu items, at most %zu", given, items.size())};
  return {};
}

}  // namespace fastqps
