#include "text/spaced/replace.h"

#include <algorithm>
#include <utility>

#include "contract/utf8.h"
#include "text/unicode/code_classes.h"

namespace fastqps::text {
namespace {

constexpr std::string_view kMark = "\u2581";

}  // namespace

Replace Replace::of_text(std::string pattern, std::string content) {
  return {Kind::kText, std::move(pattern), std::move(content)};
}

std::optional<Replace> Replace::of_regex(std::string_view regex, std::string content) {
  static constexpr std::pair<std::string_view, Kind> kKnown[] = {
      {" {2,}", Kind::kSpaces},
      {R"(\A +| +\z)", Kind::kEdges},
      {"\\A\u2581", Kind::kFirstMark},
      {R"(\s{2,}|[\n\r\t])", Kind::kWhite},
  };
  for (const auto& [known, kind] : kKnown)
    if (regex == known) return Replace(kind, kind == Kind::kFirstMark ? std::string(kMark) : "", std::move(content));
  return std::nullopt;
}

void Replace::run(std::string_view text, std::string& out, Lead& lead) const {
  std::size_t done = 0, from_first = 0;  // the second: of the new text
  const auto copy = [&](std::size_t to) {
    from_first += std::min(to, std::max(lead.n_bytes, done)) - done;
    out.append(text.substr(done, to - done));
  };
  for (Match match = next(text, 0); match.begin < text.size(); match = next(text, match.end)) {
    copy(match.begin);
    if (match.end <= lead.n_bytes) from_first += content_.size();  // new text goes with the last one that it replaces
    out.append(content_);
    done = match.end;
  }
  copy(text.size());
  lead.n_bytes = from_first;
}

Replace::Match Replace::next(std::string_view text, std::size_t from) const {
  const Match none = {text.size(), text.size()};
  switch (kind_) {
    case Kind::kText: {
      const std::size_t at = text.find(pattern_, from);
      return at == std::string_view::npos ? none : Match{at, at + pattern_.size()};
    }
    case Kind::kFirstMark:
      return from == 0 && text.starts_with(pattern_) ? Match{0, pattern_.size()} : none;
    case Kind::kSpaces:
      return spaces(text, from);
    case Kind::kEdges:
      return edge(text, from);
    case Kind::kWhite:
      return white(text, from);
  }
  return none;
}

// Two spaces or more.
Replace::Match Replace::spaces(std::string_view text, std::size_t from) {
  const std::size_t at = std::min(text.find("  ", from), text.size());
  return {at, std::min(text.find_first_not_of(' ', at), text.size())};
}

// The spaces at the beginning, then those at the end.
Replace::Match Replace::edge(std::string_view text, std::size_t from) {
  if (from == 0 && text.starts_with(' ')) return {0, std::min(text.find_first_not_of(' '), text.size())};
  const std::size_t last = text.find_last_not_of(' ');
  return {std::max(from, last == std::string_view::npos ? text.size() : last + 1), text.size()};
}

// Two characters of white space or more, or one that is a tab or a newline.
Replace::Match Replace::white(std::string_view text, std::size_t from) {
  const CodeClasses& classes = CodeClasses::get();
  const u8* const begin = utf8_bytes(text);
  const u8* const end = begin + text.size();
  for (const u8* p = begin + from; p < end;) {
    const u8* first = p;
    u32 n = 0;
    while (p < end && classes.at(p).is(CodeClasses::kSpace)) {
      p += classes.at(p).n_bytes;
      ++n;
    }
    const bool one = n == 1 && (*first == '\t' || *first == '\n' || *first == '\r');
    if (n > 1 || one) return {static_cast<std::size_t>(first - begin), static_cast<std::size_t>(p - begin)};
    if (n == 0) p += classes.at(p).n_bytes;
  }
  return {text.size(), text.size()};
}

}  // namespace fastqps::text
