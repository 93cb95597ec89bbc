#include "http2/plain_headers.h"

#include <utility>

namespace fastqps::front {

namespace {

bool pseudo_header(HeaderRules& rules, PlainHead& head, std::string_view name, std::string_view value) {
  u8 bit = 0;
  if (name == ":path") {
    bit = HeaderRules::kPath;
    if (!value.starts_with('/') && value != "*") return false;
    head.target(value);
  } else if (name == ":method") {
    bit = HeaderRules::kMethod;
    head.verb(value);
  } else if (name == ":scheme") {
    bit = HeaderRules::kScheme;
  } else if (name == ":authority") {
    bit = HeaderRules::kAuthority;
  }
  if (!bit || rules.seen & bit || rules.regular) return false;
  rules.seen |= bit;
  return true;
}

}  // namespace

bool plain_header(Call& call, HeaderRules& rules, PlainHead& head, std::string_view name, std::string_view value) {
  if (name.starts_with(':')) return pseudo_header(rules, head, name, value);
  rules.regular = true;
  if (!allowed_name(name)) return false;
  if (name == "te") return value == "trailers";
  if (name == "host") return !std::exchange(rules.host, true);
  if (name == "content-length") return set_content_length(call, value);
  head.field(*call.session, name, value);
  return true;
}

bool plain_headers_done(DoorState& door, Call& call, const HeaderRules& rules, PlainHead& head) {
  return complete(rules) && head.open(door, call, true);
}

}  // namespace fastqps::front
