#include "service/intake/slot_input.h"

#include <algorithm>
#include <cstring>

namespace fastqps::service {

namespace {

constexpr size_t kTextBytesAlways = 64 << 10;  // allowed for any text, however few tokens the model takes
constexpr size_t kBytesPerToken = 128;         // allowed beyond that; the length of the longest usual tokens
constexpr size_t kLoopTextBytes = 4 << 10;     // longer texts are tokenized by another thread

// Bytes of the text's first `most` characters, or of all where it has no more.
size_t bytes_of_characters(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  size_t characters = 0;
  for (size_t at = 0; at < text.size(); at++)
    if ((u8(text[at]) & 0xc0) != 0x80 && characters++ == most) return at;
  return text.size();
}

const char* field_of(const Item& item) { return item.chat ? "chat.messages" : item.pair ? "pair" : "text"; }

}  // namespace

Refusal SlotInput::fill(const RequestView& view, u32 r, u32 slot, Item& item) {
  const Route& route = tables_.routes[r];
  if (view.input == Input::kStep) return fill_step(view, r, slot);
  item.truncate = tables_.routes.cuts(view.truncation);
  if (Refusal refusal = take_role(view, r, item)) return refusal;
  if (view.input == Input::kTokenIds) return fill_ids(view, route, slot, item);
  if (Refusal refusal = check_tokenizer(view, r)) return refusal;
  if (view.input == Input::kChat) return fill_chat(view, r, slot, item);
  const RouteSetup& setup = tables_.routes.setup(r);
  item.pair = view.input == Input::kPair;
  Texts texts{item.pair ? view.pair_first : view.text, view.pair_second, item.pair};
  if (setup.card.max_characters && !item.pair)
    if (Refusal refusal = bound_characters(setup.card.max_characters, texts.first, item)) return refusal;
  if (Refusal refusal = bound_text(texts.first.size() + texts.second.size(), item)) return refusal;
  if (Refusal refusal = word(view, r, texts)) return refusal;
  const u32 most = tables_.routes.tokens_max(r, item.role);
  const text::Cut cut = !item.truncate                   ? text::Cut::kCounted
                        : texts.pair && view.keep_second ? text::Cut::kFirst
                                                         : text::Cut::kLongest;
  if (setup.external_tokenizer || texts.first.size() + texts.second.size() > kLoopTextBytes) {
    TokenizeJob job{slot, r, texts.pair, std::string(texts.first), std::string(texts.second)};
    if (!setup.external_tokenizer) job.tokenizer = setup.of_long_texts;
    job.tokens_max = most;
    job.cut = cut;
    job.spans = traits(route.task).spans;
    return hand_over(std::move(job), texts.first.size() + texts.second.size(), item);
  }
  Slot& s = tables_.slots.slot(slot);
  u32* ids = tables_.memory.segment.ids(s);
  text::Tokenizer& tokenizer = *setup.tokenizer;
  const bool spans = traits(route.task).spans;
  const text::Encoded encoded = texts.pair ? tokenizer.encode_pair(texts.first, texts.second, ids, most, cut)
                                : spans
                                    ? tokenizer.encode_spans(texts.first, ids, most, tables_.items.spans.of(slot), cut)
                                    : tokenizer.encode(texts.first, ids, most, cut);
  if (!encoded.n_total && setup.empty_id) {
    write_empty(slot, *setup.empty_id);
    return {};
  }
  if (Refusal refusal = check_tokens(item, encoded.n_tokens, encoded.n_total)) return refusal;
  if (setup.check_ids)
    if (Refusal refusal = check_ids(field_of(item), ids, encoded.n_tokens, route)) return refusal;
  if (spans) mark_words(slot);
  const u32 left_out = encoded.n_tokens - keep_specials(ids, encoded.n_tokens, item);
  finish(slot, item, encoded.first_len - left_out, encoded.n_tokens - left_out);
  item.truncated |= encoded.truncated;
  return {};
}

// Renders the conversation by the table of the model's chat template. What is not in the table goes to another process.
Refusal SlotInput::fill_chat(const RequestView& view, u32 r, u32 slot, Item& item) {
  const RouteSetup& setup = tables_.routes.setup(r);
  item.chat = true;
  if (!setup.card.chat)
    return tables_.refusals.refuse_field("chat.messages", "the model '%s' has no chat template; send text or token ids",
                                         tables_.routes.name(r));
  if (!view.prompt_name.empty()) return unknown_prompt(view.prompt_name, r);
  chat_messages(view, messages_);
  size_t bytes = view.chat.variables.size();
  for (const ChatMessage& message : messages_) bytes += message.content.size();
  if (Refusal refusal = bound_text(bytes, item)) return refusal;
  const text::Conversation chat{messages_, view.chat.mode, view.chat.variables};
  const bool in_table = setup.chat && setup.chat->render(chat, rendered_);
  const u32 most = tables_.routes.tokens_max(r, item.role) + u32(setup.card.prefix_ids.size());
  TokenizeJob job = chat_job(slot, item, most);
  if (!in_table || setup.external_tokenizer) {
    job.chat.emplace(ChatJob{{}, view.chat.mode, std::string(view.chat.variables)});
    for (const auto& [role, content] : messages_) job.chat->messages.emplace_back(kChatRoles[u8(role)], content);
    return hand_over(std::move(job), bytes, item);
  }
  if (rendered_.text.size() > kLoopTextBytes) {
    job.tokenizer = setup.of_long_texts;
    job.rendered = true;
    job.first = rendered_.text;
    job.fixed = rendered_.tokens;
    return hand_over(std::move(job), bytes, item);
  }
  ids_.resize(most);
  const text::Encoded encoded =
      setup.tokenizer->encode_fixed(rendered_.text, rendered_.tokens, ids_.data(), most, job.cut);
  ids_.resize(encoded.n_tokens);
  if (Refusal refusal = settle_chat(ids_, encoded.n_total, item)) return refusal;
  std::copy(ids_.begin(), ids_.end(), tables_.memory.segment.ids(tables_.slots.slot(slot)));
  finish(slot, item, u32(ids_.size()), u32(ids_.size()));
  return {};
}

TokenizeJob SlotInput::chat_job(u32 slot, const Item& item, u32 most) const {
  TokenizeJob job{slot, item.route, false, {}, {}};
  job.tokens_max = most;
  job.cut = item.truncate ? text::Cut::kLongest : text::Cut::kCounted;
  return job;
}

// A conversation that begins with the model's prefix has it once: the prefix is in front of every prompt.
Refusal SlotInput::settle_chat(std::vector<u32>& ids, u32 n_total, Item& item) {
  const Route& route = tables_.routes[item.route];
  const ModelCard& card = tables_.routes.setup(item.route).card;
  const std::vector<u32>& prefix = card.prefix_ids;
  const size_t most = tables_.routes.tokens_max(item.route, item.role);
  if (!prefix.empty() && ids.size() > prefix.size() && std::equal(prefix.begin(), prefix.end(), ids.begin())) {
    ids.erase(ids.begin(), ids.begin() + std::ptrdiff_t(prefix.size()));
    n_total -= u32(prefix.size());
  }
  if (!n_total) return tables_.refusals.refuse_field("chat.messages", "0 tokens, at least 1");
  if (n_total > most && !item.truncate) return too_long("chat.messages", n_total, u32(most));
  if (ids.size() > most) {
    const auto beyond = std::ptrdiff_t(ids.size() - most);
    card.cuts_left ? ids.erase(ids.begin(), ids.begin() + beyond) : ids.erase(ids.end() - beyond, ids.end());
  }
  item.truncated |= n_total > ids.size();
  return check_ids("chat.messages", ids.data(), u32(ids.size()), route);
}

Refusal SlotInput::read_choices(const RequestView& view, u32 r, std::unique_ptr<ChoiceTexts>& out) {
  constexpr const char* kField = "generate.choices";
  const RouteSetup& setup = tables_.routes.setup(r);
  const Route& route = tables_.routes[r];
  if (setup.external_tokenizer || !setup.tokenizer || !setup.tokenizer->encodes_fixed())
    return tables_.refusals.refuse_field(kField, "the tokenizer of '%s' is not native here, so choices have no tokens",
                                         tables_.routes.name(r));
  std::string_view texts[kChoiceTextsMax];
  texts_of(view, &GenerateOptions::choices, texts);
  const u32 n = view.generate.choices.count;
  std::vector<std::vector<u32>> ids(n);
  std::vector<u32> made(route.max_output_tokens);
  for (u32 i = 0; i < n; i++) {
    const text::Encoded encoded = setup.tokenizer->encode_fixed(texts[i], {}, made.data(), route.max_output_tokens);
    if (!encoded.n_total || encoded.n_total > encoded.n_tokens)
      return tables_.refusals.refuse_field(kField, "text %u has %u tokens, must have 1 to %u", i, encoded.n_total,
                                           route.max_output_tokens);
    ids[i].assign(made.begin(), made.begin() + encoded.n_tokens);
    if (Refusal refusal = check_ids(kField, ids[i].data(), encoded.n_tokens, route)) return refusal;
    if (const auto same = std::find(ids.begin(), ids.begin() + i, ids[i]) - ids.begin(); same < i)
      return tables_.refusals.refuse_field(kField, "texts %u and %u are the same tokens", u32(same), i);
  }
  ChoiceTree tree(ids);
  const u64 room = tables_.memory.segment.sizes().longest_answer() / TokenAnswer::token_bytes(tree.targets_max());
  if (const u64 most = std::min<u64>(route.max_output_tokens, room); tree.rows() > most)
    return tables_.refusals.refuse_field(kField, "the texts differ in %u places, at most %llu", tree.rows(),
                                         (unsigned long long)most);
  out = std::make_unique<ChoiceTexts>(
      ChoiceTexts{{texts, texts + n}, std::move(tree), view.generate.logprobs || view.generate.top_logprobs});
  return {};
}

Refusal SlotInput::take_role(const RequestView& view, u32 r, Item& item) {
  const std::vector<InputRole>& roles = tables_.routes.setup(r).card.roles;
  if (roles.empty()) return {};
  item.role = role_of(roles, view.prompt_name) & 15;
  const std::string& why = roles[item.role].refusal;
  return why.empty() ? Refusal{} : tables_.refusals.refuse_field("prompt_name", "%s", why.c_str());
}

// The ids are in the slot.
void SlotInput::finish(u32 slot, const Item& item, u32 first_len, u32 n_tokens) {
  Slot& s = tables_.slots.slot(slot);
  const std::vector<InputRole>& roles = tables_.routes.setup(item.route).card.roles;
  const u32 n = roles.empty() ? n_tokens : apply_role(roles[item.role], tables_.memory.segment.ids(s), n_tokens);
  set_tokens(slot, item.route, first_len + n - n_tokens, n);  // what is added stands behind a single text
}

// Says how many ids are in the slot, and how many of them its device need not compute: those that are the model's
// opening. The last one is always computed, because the answer is its row.
void SlotInput::set_tokens(u32 slot, u32 r, u32 first_len, u32 n) {
  Slot& s = tables_.slots.slot(slot);
  const std::vector<u32>& opening = tables_.routes.setup(r).card.opening_ids;
  const auto most = opening.begin() + i64(std::min<size_t>(opening.size(), n - 1));
  const auto end = std::mismatch(opening.begin(), most, tables_.memory.segment.ids(s)).first;
  s.first_len = first_len;
  s.n_tokens.store(n, kRelaxed);
  s.opening.store(u32(end - opening.begin()), kRelaxed);
}

Refusal SlotInput::check_tokenizer(const RequestView& view, u32 r) {
  const RouteSetup& setup = tables_.routes.setup(r);
  if (!setup.external_tokenizer && !setup.tokenizer)
    return tables_.refusals.refuse_field(view.input == Input::kPair ? "pair" : "text",
                                         "the model '%s' has no tokenizer; send token ids", tables_.routes.name(r));
  if (setup.card.pairs_only && view.input == Input::kText)
    return tables_.refusals.refuse_field("text",
                                         "the model '%s' scores pairs of texts; send a pair, or start the server with "
                                         "--allow-single-texts",
                                         tables_.routes.name(r));
  return {};
}

// Puts the prompt in front of the text: the one that the request names, else the model's default one. Where the model
// has templates, that of the prompt makes one text of all.
Refusal SlotInput::word(const RequestView& view, u32 r, Texts& texts) {
  const RouteSetup& setup = tables_.routes.setup(r);
  std::string_view prompt = setup.default_prompt;
  if (!view.prompt_name.empty()) {
    const auto named = [&](const auto& each) { return each.first == view.prompt_name; };
    const auto found = std::find_if(setup.card.prompts.begin(), setup.card.prompts.end(), named);
    if (found == setup.card.prompts.end()) return unknown_prompt(view.prompt_name, r);
    prompt = found->second;
  }
  if (setup.card.templates.empty()) {
    if (!prompt.empty()) texts.first = worded_.assign(prompt).append(texts.first);
    return {};
  }
  const auto of_prompt = [&](const TextTemplate& each) { return each.name == view.prompt_name; };
  const auto found = std::ranges::find_if(setup.card.templates, of_prompt);  // there is one for each prompt
  const TextTemplate::Parts& parts = texts.pair ? found->pair : found->text;
  if (parts.empty())
    return tables_.refusals.refuse_field(texts.pair ? "pair" : "text", "the template of '%s' has no place for a %s; %s",
                                         tables_.routes.name(r), texts.pair ? "pair of texts" : "text",
                                         texts.pair ? "send a text" : "send a pair of texts");
  TextTemplate::fill(parts, texts.first, texts.second, worded_);
  texts = {worded_, {}, false};
  return {};
}

// Lists the prompts, as many as the message has room for.
Refusal SlotInput::unknown_prompt(std::string_view name, u32 r) {
  constexpr const char* kWayOut = "put another in front of the text";
  const RouteSetup& setup = tables_.routes.setup(r);
  if (setup.card.prompts.empty())
    return tables_.refusals.refuse_field("prompt_name", "'%.*s', but the model '%s' has no prompts; %s", shown(name),
                                         name.data(), tables_.routes.name(r), kWayOut);
  std::string names;
  for (const auto& [each, _] : setup.card.prompts) names.append(names.empty() ? "'" : ", '").append(each).append("'");
  return tables_.refusals.refuse_field("prompt_name", "'%.*s' is no prompt of the model '%s'; %s, or name one of %s",
                                       shown(name), name.data(), tables_.routes.name(r), kWayOut, names.c_str());
}

// Refuses or cuts a text of more characters than its model's package would read.
Refusal SlotInput::bound_characters(u32 most, std::string_view& text, Item& item) {
  const size_t bytes = bytes_of_characters(text, most);
  if (bytes == text.size()) return {};
  if (!item.truncate)
    return tables_.refusals.refuse_field(
        "text", "more than %u characters, which the model takes at most; set truncate to have it cut", most);
  text = text.substr(0, bytes);
  item.truncated = true;
  return {};
}

// Refuses a text that is longer than any that the model takes whole, because counting its tokens could take seconds.
// One that may be cut is not counted: its tokenizer stops behind the cut.
Refusal SlotInput::bound_text(size_t bytes, const Item& item) {
  if (item.truncate) return {};
  const u32 tokens = tables_.routes[item.route].max_input_tokens;
  const size_t most = std::max(kTextBytesAlways, kBytesPerToken * tokens);
  if (bytes <= most) return {};
  return tables_.refusals.refuse_field(
      field_of(item), "%zu bytes, at most %zu for a model of at most %u tokens; set truncate to have it cut", bytes,
      most, tokens);
}

Refusal SlotInput::hand_over(TokenizeJob job, size_t bytes, Item& item) {
  const TextLane lane = bytes > kLoopTextBytes ? TextLane::kLong : TextLane::kUsual;
  if (!tables_.tokenizers.push(item.connection, std::move(job), lane)) return busy(TokenizeQueue::kNoRoom);
  item.tokenizing = true;
  return {};
}

Refusal SlotInput::busy(const char* why) {
  bump(tables_.memory.stats.rejected[kRejectQueueFull]);
  Refusal refusal = tables_.refusals.refuse(StatusCode::kResourceExhausted, "%s", why);
  refusal.retry_after_ms = 100;
  return refusal;
}

// n_tokens: tokens written; n_total: tokens of the whole text.
Refusal SlotInput::check_tokens(const Item& item, u32 n_tokens, u32 n_total) {
  const char* field = field_of(item);
  const u32 most = tables_.routes.tokens_max(item.route, item.role);
  if (!n_total) return tables_.refusals.refuse_field(field, "0 tokens, at least 1");
  if (n_total > n_tokens && !item.truncate) return too_long(field, n_total, most);
  if (!n_tokens)
    return tables_.refusals.refuse_field("pair.second", "too long: it leaves no room for the first text in %u tokens",
                                         most);
  const SpecialsAround& specials = tables_.routes.setup(item.route).specials;
  if (item.bare && n_tokens <= specials.leading + specials.trailing)
    return tables_.refusals.refuse_field(field, "0 tokens, at least 1");
  return {};
}

// Leaves out the special tokens around a text if its request says so, and those in front of a text that begins with
// them itself, as one that a chat template has made. Returns how many ids are left.
u32 SlotInput::keep_specials(u32* ids, u32 n, const Item& item) {
  const auto [leading, trailing] = tables_.routes.setup(item.route).specials;
  const bool twice = leading && n >= 2 * leading && std::equal(ids, ids + leading, ids + leading);
  if (!item.bare && !twice) return n;
  const u32 left = n - leading - (item.bare ? trailing : 0);
  std::memmove(ids, ids + leading, left * sizeof(u32));
  return left;
}

Refusal SlotInput::fill_ids(const RequestView& view, const Route& route, u32 slot, Item& item) {
  Slot& s = tables_.slots.slot(slot);
  const u32 most = tables_.routes.tokens_max(item.route, item.role);
  u32 n = std::min(view.token_count, most);
  if (!n) return tables_.refusals.refuse_field("token_ids", "0 ids, at least 1");
  if (!view.prompt_name.empty())
    return tables_.refusals.refuse_field("prompt_name", "'%.*s' with token ids, which are used as they are; send text",
                                         shown(view.prompt_name), view.prompt_name.data());
  if (view.token_count > n && !item.truncate) return too_long("token_ids", view.token_count, most);
  u32* ids = tables_.memory.segment.ids(s);
  if (view.token_count > n) {
    ids_.resize(view.token_count);  // bounded by the size of a message
    token_ids(view, ids_.data());
    const u32 first = tables_.routes.setup(item.route).card.cuts_left ? view.token_count - n : 0;
    std::memcpy(ids, &ids_[first], n * sizeof(u32));
    item.truncated = true;
  } else {
    token_ids(view, ids);
  }
  if (Refusal refusal = check_ids("token_ids", ids, n, route)) return refusal;
  finish(slot, item, n, n);
  return {};
}

// What an edge has made of a text is used as it is: prompt, role and marks are in it.
Refusal SlotInput::fill_step(const RequestView& view, u32 r, u32 slot) {
  const Route& route = tables_.routes[r];
  const u32 n = view.token_count;
  if (!n) return tables_.refusals.refuse_field("ids", "0 ids, at least 1");
  if (n > route.max_input_tokens)
    return tables_.refusals.refuse_field("ids", "%u tokens, at most %u", n, route.max_input_tokens);
  u32* ids = tables_.memory.segment.ids(tables_.slots.slot(slot));
  const u32 mark = traits(route.task).by_token ? kNoOwnAnswer : 0;
  u32 largest = 0;
  for (u32 i = 0; i < n; i++) {
    ids[i] = view.tokens[i];
    largest = std::max(largest, view.tokens[i] & ~mark);
  }
  if (largest >= route.vocab_size)
    return tables_.refusals.refuse_field("ids", "id %u, the vocabulary has %u", largest, route.vocab_size);
  set_tokens(slot, r, view.first_tokens, n);
  return {};
}

// An id beyond the model's vocabulary would break its whole batch.
Refusal SlotInput::check_ids(const char* field, const u32* ids, u32 n, const Route& route) {
  const u32 largest = *std::max_element(ids, ids + n);
  if (largest < route.vocab_size) return {};
  return tables_.refusals.refuse_field(field, "id %u, the vocabulary has %u", largest, route.vocab_size);
}

// Gateways look for OpenAI's words, to try a model with a larger context.
Refusal SlotInput::too_long(const char* field, u32 tokens, u32 limit) {
  Refusal refusal = tables_.refusals.refuse_field(
      field, "%u tokens, at most %u; set truncate to have it cut; this model's maximum context length is %u tokens",
      tokens, limit, limit);
  refusal.fault = FieldFault::kTooLong;
  return refusal;
}

Refusal SlotInput::check(TokenizeResult& result, Item& item) {
  const Route& route = tables_.routes[item.route];
  const u32 n_tokens = u32(result.ids.size());
  if (result.busy) return busy(result.failure.c_str());
  if (!result.failure.empty()) return tables_.refusals.refuse_field(field_of(item), "%s", result.failure.c_str());
  if (item.chat) return settle_chat(result.ids, result.n_total, item);
  if (n_tokens > tables_.routes.tokens_max(item.route, item.role))
    return tables_.refusals.refuse_field(field_of(item), "the tokenizer did not cut it");
  if (result.spans.size() != (traits(route.task).spans ? n_tokens : 0))
    return tables_.refusals.refuse_field(field_of(item), "the tokenizer did not say where its tokens are");
  if (!result.n_total && tables_.routes.setup(item.route).empty_id) return {};
  if (Refusal refusal = check_tokens(item, n_tokens, result.n_total)) return refusal;
  return check_ids(field_of(item), result.ids.data(), n_tokens, route);
}

void SlotInput::write_empty(u32 slot, u32 id) {
  Slot& s = tables_.slots.slot(slot);
  *tables_.memory.segment.ids(s) = id;
  s.first_len = 1;
  s.n_tokens.store(1, kRelaxed);
  s.opening.store(0, kRelaxed);
}

void SlotInput::write(TokenizeResult& result, Item& item) {
  if (!result.n_total)
    return write_empty(result.slot, *tables_.routes.setup(item.route).empty_id);  // check() accepted it
  const u32 n_written = u32(result.ids.size());
  const u32 n_tokens = item.chat ? n_written : keep_specials(result.ids.data(), n_written, item);
  result.ids.resize(n_tokens);
  Slot& s = tables_.slots.slot(result.slot);
  std::copy(result.ids.begin(), result.ids.end(), tables_.memory.segment.ids(s));
  finish(result.slot, item, std::min(result.first_len, n_tokens), n_tokens);
  item.truncated |= !item.chat && result.n_total > n_written;
  if (result.spans.empty()) return;
  tables_.items.spans.of(result.slot) = std::move(result.spans);
  mark_words(result.slot);
}

// The dispatcher has to know which tokens are of one word.
void SlotInput::mark_words(u32 slot) {
  u32* ids = tables_.memory.segment.ids(tables_.slots.slot(slot));
  for (const text::TokenSpan& span : tables_.items.spans[slot]) *ids++ |= span.continues_word ? kNoOwnAnswer : 0;
}

}  // namespace fastqps::service
