#include "text/template_tokenizer.h"

#include <algorithm>
#include <iterator>

#include "text/added_tokens.h"

namespace fastqps::text {

void Template::keep(SpecialTokens which) {
  if (which == SpecialTokens::kAll) return;
  for (auto* ids : {&single_head, &pair_head}) ids->clear();
  if (which == SpecialTokens::kTrailing) return;
  for (auto* ids : {&single_tail, &pair_middle, &pair_tail}) ids->clear();
  n_middle_first = 0;
}

u32 Template::largest_id() const {
  u32 largest = 0;
  for (const auto* ids : {&single_head, &single_tail, &pair_head, &pair_middle, &pair_tail})
    for (u32 id : *ids) largest = std::max(largest, id);
  return largest;
}

u32 TemplateTokenizer::n_special(bool pair) const {
  const Template& t = around_.special;
  return static_cast<u32>(pair ? t.pair_head.size() + t.pair_middle.size() + t.pair_tail.size()
                               : t.single_head.size() + t.single_tail.size());
}

namespace {

constexpr u32 kAll = 0xFFFFFFFF;
constexpr std::string_view kCutNames[] = {"counted", "longest", "first"};

}  // namespace

std::optional<Cut> cut_named(std::string_view name) {
  const auto found = std::find(std::begin(kCutNames), std::end(kCutNames), name);
  if (found == std::end(kCutNames)) return std::nullopt;
  return static_cast<Cut>(found - std::begin(kCutNames));
}

std::string_view name_of(Cut cut) { return kCutNames[static_cast<u32>(cut)]; }

u32 TemplateTokenizer::count(std::string_view text, u32* out, u32 room, u32 most, std::vector<TokenSpan>* spans) {
  Ids ids{out, room, around_.cut_left, around_.cut_left ? kAll : most};
  spans ? run_spans(text, ids, *spans) : run(text, ids);
  settle(ids);
  return ids.n;
}

// Where the last ones are kept, from a ring to their order.
void TemplateTokenizer::settle(Ids& ids) {
  if (ids.keep_last && ids.room && ids.n > ids.room)
    std::rotate(ids.out, ids.out + ids.n % ids.room, ids.out + ids.room);
}

Encoded TemplateTokenizer::encode_fixed(std::string_view text, std::span<const FixedToken> fixed, u32* out,
                                        u32 max_tokens, Cut cut) {
  const u32 most = cut == Cut::kCounted || around_.cut_left ? kAll : max_tokens;
  Ids ids{out, max_tokens, around_.cut_left, most};
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= fixed.size() && !ids.enough(); ++i) {
    std::size_t end = i < fixed.size() ? fixed[i].at : text.size();
    const std::string_view upto = text.substr(0, end);
    if (i && fixed[i - 1].rstrip) begin = AddedTokens::spaces_after(upto, begin);
    if (i < fixed.size() && fixed[i].lstrip) end = std::max(begin, AddedTokens::spaces_before(upto, end));
    if (end > begin) run_part(text.substr(begin, end - begin), !i, ids);
    if (i == fixed.size()) break;
    ids.put(fixed[i].id);
    begin = fixed[i].at;
  }
  settle(ids);
  const u32 kept = std::min(ids.n, max_tokens);
  return {kept, ids.n, kept, ids.n > kept};
}

Encoded TemplateTokenizer::encode(std::string_view text, u32* out, u32 max_tokens, Cut cut) {
  return encode_with(text, out, max_tokens, nullptr, cut);
}

Encoded TemplateTokenizer::encode_spans(std::string_view text, u32* out, u32 max_tokens, std::vector<TokenSpan>& spans,
                                        Cut cut) {
  const u32 n_head = static_cast<u32>(around_.special.single_head.size());
  spans.assign(n_head, kNoPart);
  const Encoded done = encode_with(text, out, max_tokens, &spans, cut);
  if (!done.n_tokens) return spans.clear(), done;
  const u32 n_kept = done.n_tokens - n_special(false);
  const auto first = spans.begin() + n_head, last = first + (spans.size() - n_head - n_kept);
  around_.cut_left ? spans.erase(first, last) : spans.erase(first + n_kept, spans.end());
  if (n_kept) spans[n_head].continues_word = 0;  // nothing is in front that it could continue
  spans.resize(done.n_tokens, kNoPart);
  return done;
}

Encoded TemplateTokenizer::encode_with(std::string_view text, u32* out, u32 max_tokens, std::vector<TokenSpan>* spans,
                                       Cut cut) {
  const Template& t = around_.special;
  const u32 n_special = this->n_special(false);
  const bool fits = max_tokens >= n_special;
  const u32 room = fits ? max_tokens - n_special : 0;
  const u32 n_head = static_cast<u32>(t.single_head.size());
  const u32 n = count(text, fits ? out + n_head : out, room, cut == Cut::kCounted ? kAll : room, spans);
  if (!fits) return {0, n + n_special, 0, true};
  const u32 kept = std::min(n, room);
  std::copy(t.single_head.begin(), t.single_head.end(), out);
  std::copy(t.single_tail.begin(), t.single_tail.end(), out + n_head + kept);
  return {kept + n_special, n + n_special, kept + n_special, n > kept};
}

// Cuts a pair that is too long. The longer text is cut down to the shorter one, then both to half of the room each, the
// odd token to the one that was longer (the second where they were equal). Or the first is cut to what the second
// leaves.
TemplateTokenizer::Lengths TemplateTokenizer::cut_pair(Lengths whole, u32 room, Cut cut) {
  if (cut == Cut::kFirst) return {room - whole.second, whole.second};
  const bool swap = whole.first > whole.second;
  u32 shorter = swap ? whole.second : whole.first;
  u32 longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (static_cast<u64>(shorter) + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swap ? Lengths{longer, shorter} : Lengths{shorter, longer};
}

TemplateTokenizer::Lengths TemplateTokenizer::count_pair(std::string_view first, std::string_view second, u32* out,
                                                         u32 room, Cut cut) {
  const u32 most = cut == Cut::kCounted ? kAll : room;
  const u32 n_first = count(first, out, room, most);
  // A caller's generous room costs no memory: few texts have more ids than this, and they are run again.
  u32 second_room = static_cast<u32>(std::min<u64>(room, second.size() * kUsualIdsPerByte));
  if (second_.size() < second_room) second_.resize(second_room);
  u32 n_second = count(second, second_.data(), second_room, most);
  if (n_second > second_room && second_room < room) {
    second_room = std::min(room, n_second);
    second_.resize(second_room);
    n_second = count(second, second_.data(), second_room, most);
  }
  // The odd token goes to the longer text, so where both fill the room it must be known which one that is.
  const bool odd = cut == Cut::kLongest && room % 2 && n_first > room && n_second > room;
  return odd ? count_pair(first, second, out, room, Cut::kCounted) : Lengths{n_first, n_second};
}

Encoded TemplateTokenizer::encode_pair(std::string_view first, std::string_view second, u32* out, u32 max_tokens,
                                       Cut cut) {
  const Template& t = around_.special;
  const u32 n_special = this->n_special(true);
  const bool fits = max_tokens >= n_special;
  const u32 room = fits ? max_tokens - n_special : 0;
  const u32 n_head = static_cast<u32>(t.pair_head.size());
  const Lengths whole = count_pair(first, second, fits ? out + n_head : out, room, cut);
  const u32 n_total = whole.first + whole.second + n_special;
  if (!fits) return {0, n_total, 0, true};
  const bool too_long = static_cast<u64>(whole.first) + whole.second > room;
  if (too_long && cut == Cut::kFirst && whole.second >= room) return {0, n_total, 0, true};
  const Lengths kept = too_long ? cut_pair(whole, room, cut) : whole;
  std::copy(t.pair_head.begin(), t.pair_head.end(), out);
  u32* const first_ids = out + n_head;
  u32 skipped = 0;  // of the second text's ids that are held
  if (around_.cut_left) {
    const u32 held = std::min(whole.first, room);
    std::copy(first_ids + (held - kept.first), first_ids + held, first_ids);
    skipped = std::min(whole.second, room) - kept.second;
  }
  u32* at = std::copy(t.pair_middle.begin(), t.pair_middle.end(), first_ids + kept.first);
  at = std::copy_n(second_.begin() + skipped, kept.second, at);
  std::copy(t.pair_tail.begin(), t.pair_tail.end(), at);
  const u32 n_tokens = kept.first + kept.second + n_special;
  const u32 first_len = t.second_type_id ? n_head + kept.first + t.n_middle_first : n_tokens;
  return {n_tokens, n_total, first_len, n_tokens < n_total};
}

}  // namespace fastqps::text
