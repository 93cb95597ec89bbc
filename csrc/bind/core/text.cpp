#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "bind/bind.h"
#include "contract/json_fields.h"
#include "contract/strip.h"
#include "text/chat_template.h"
#include "text/load/detokenizer.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

constexpr u32 kNoLimit = 0xFFFFFFFF;
constexpr std::size_t kReleaseBytes = 16 * 1024;  // below this, giving up the GIL costs more than the work

std::string_view utf8(const py::handle& text) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);  // lives as long as the str
  if (!bytes) throw py::error_already_set();
  return {bytes, static_cast<std::size_t>(size)};
}

using Ids = py::typing::List<u32>;
// (ids, ids that the whole has, ids with type id 0)
using EncodedItem = std::tuple<Ids, u32, u32>;
// (start, end, continues its word); nothing: a special token.
using Span = std::optional<std::tuple<u32, u32, bool>>;

Ids to_list(const u32* ids, u32 n) {
  Ids out(n);
  for (u32 i = 0; i < n; ++i) PyList_SET_ITEM(out.ptr(), i, PyLong_FromUnsignedLong(ids[i]));
  return out;
}

// A tokenizer belongs to one thread; Python threads take turns.
class NativeTokenizer {
 public:
  NativeTokenizer(const std::string& source, const std::string& special) {
    std::string why;
    tokenizer_ = text::load_native(source, &why, special_tokens(special));
    if (!tokenizer_) throw py::value_error(why);
  }

  Ids encode(const py::str& text, std::optional<u32> max_tokens) {
    const std::string_view bytes = utf8(text);
    const std::lock_guard lock(mutex_);
    return to_list(ids_.data(), encode_one(bytes, max_tokens).n_tokens);
  }

  std::pair<Ids, u32> encode_pair(const py::str& first, const py::str& second, std::optional<u32> max_tokens) {
    const std::string_view a = utf8(first), b = utf8(second);
    const std::lock_guard lock(mutex_);
    const text::Encoded done = encode_two(a, b, max_tokens);
    return {to_list(ids_.data(), done.n_tokens), done.first_len};
  }

  py::typing::List<Ids> encode_batch(const std::vector<py::str>& texts, std::optional<u32> max_tokens) {
    std::vector<std::string_view> bytes;
    std::size_t n_bytes = 0;
    for (const py::str& text : texts) n_bytes += bytes.emplace_back(utf8(text)).size();
    std::vector<u32> ids, lengths;
    if (n_bytes < kReleaseBytes) {
      encode_all(bytes, max_tokens, ids, lengths);
    } else {
      const py::gil_scoped_release released;
      encode_all(bytes, max_tokens, ids, lengths);
    }
    py::typing::List<Ids> out(texts.size());
    const u32* at = ids.data();
    for (std::size_t i = 0; i < lengths.size(); at += lengths[i++]) out[i] = to_list(at, lengths[i]);
    return out;
  }

  using Item = std::variant<py::str, std::pair<py::str, py::str>>;
  std::vector<EncodedItem> encode_items(const std::vector<Item>& items, std::optional<u32> max_tokens,
                                        const std::string& name) {
    const std::optional<text::Cut> cut = text::cut_named(name);
    if (!cut) throw py::value_error("cut: must be counted, longest or first");
    std::vector<EncodedItem> out;
    out.reserve(items.size());
    const std::lock_guard lock(mutex_);
    for (const Item& item : items) {
      const auto* const pair = std::get_if<1>(&item);
      const text::Encoded done = pair ? encode_two(utf8(pair->first), utf8(pair->second), max_tokens, *cut)
                                      : encode_one(utf8(std::get<0>(item)), max_tokens, *cut);
      out.emplace_back(to_list(ids_.data(), done.n_tokens), done.n_total, done.first_len);
    }
    return out;
  }

  std::tuple<Ids, u32, std::vector<Span>> encode_spans(const py::str& text, std::optional<u32> max_tokens) {
    const std::string_view bytes = utf8(text);
    const std::lock_guard lock(mutex_);
    std::vector<text::TokenSpan> spans;
    const auto run = [&](u32 room, text::Cut how) {
      return tokenizer_->encode_spans(bytes, ids_.data(), room, spans, how);
    };
    const text::Encoded done = with_room(bytes.size(), false, max_tokens, text::Cut::kCounted, run);
    std::vector<Span> found(spans.size());
    for (size_t i = 0; i < spans.size(); i++)
      if (spans[i].begin != text::kNoPart.begin)
        found[i].emplace(spans[i].begin, spans[i].end, bool(spans[i].continues_word));
    return {to_list(ids_.data(), done.n_tokens), done.n_total, std::move(found)};
  }

  using Fixed = std::tuple<std::size_t, u32, bool, bool>;
  std::pair<Ids, u32> encode_fixed(const py::bytes& text, const std::vector<Fixed>& tokens,
                                   std::optional<u32> max_tokens, const std::string& name) {
    const std::optional<text::Cut> cut = text::cut_named(name);
    if (!cut || !tokenizer_->encodes_fixed())
      throw py::value_error("the tokenizer has no fixed tokens, or no such cut");
    const std::string_view bytes = text;
    std::vector<text::FixedToken> fixed;
    for (const auto& [at, id, lstrip, rstrip] : tokens) {
      if (at > bytes.size() || (!fixed.empty() && at < fixed.back().at)) throw py::index_error("tokens");
      fixed.push_back({at, id, lstrip, rstrip});
    }
    const std::lock_guard lock(mutex_);
    const auto run = [&](u32 room, text::Cut how) {
      return tokenizer_->encode_fixed(bytes, fixed, ids_.data(), room, how);
    };
    const text::Encoded done = with_room(bytes.size() + fixed.size(), false, max_tokens, *cut, run);
    return {to_list(ids_.data(), done.n_tokens), done.n_total};
  }

  const text::Tokenizer& of() const { return *tokenizer_; }

 private:
  void encode_all(const std::vector<std::string_view>& texts, std::optional<u32> max_tokens, std::vector<u32>& ids,
                  std::vector<u32>& lengths) {
    const std::lock_guard lock(mutex_);
    for (std::string_view text : texts) {
      const u32 n = encode_one(text, max_tokens).n_tokens;
      ids.insert(ids.end(), ids_.begin(), ids_.begin() + n);
      lengths.push_back(n);
    }
  }

  text::Encoded encode_one(std::string_view text, std::optional<u32> max_tokens, text::Cut cut = text::Cut::kCounted) {
    return with_room(text.size(), false, max_tokens, cut,
                     [&](u32 room, text::Cut how) { return tokenizer_->encode(text, ids_.data(), room, how); });
  }

  text::Encoded encode_two(std::string_view first, std::string_view second, std::optional<u32> max_tokens,
                           text::Cut cut = text::Cut::kCounted) {
    return with_room(first.size() + second.size(), true, max_tokens, cut, [&](u32 room, text::Cut how) {
      return tokenizer_->encode_pair(first, second, ids_.data(), room, how);
    });
  }

  // Makes room for the ids of n_bytes of text, but for no more than max_tokens. Few texts have more: they are run
  // again.
  template <class Encode>
  text::Encoded with_room(std::size_t n_bytes, bool pair, std::optional<u32> max_tokens, text::Cut cut, Encode encode) {
    const u64 usual = n_bytes * text::kUsualIdsPerByte + tokenizer_->n_special(pair);
    const u64 limit = max_tokens.value_or(kNoLimit);
    if (usual >= limit) return encode(reserve(limit), cut);
    const text::Encoded done = encode(reserve(usual), text::Cut::kCounted);
    return done.truncated ? encode(reserve(std::min<u64>(done.n_total, limit)), cut) : done;
  }

  u32 reserve(u64 most) {
    if (ids_.size() < most || ids_.size() > most + kKeptIds) ids_.assign(most, 0);
    return static_cast<u32>(most);
  }

  static constexpr std::size_t kKeptIds = 1 << 20;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::mutex mutex_;
  std::vector<u32> ids_;
};

class NativeDetokenizer {
 public:
  explicit NativeDetokenizer(const std::string& source) {
    std::string why;
    tables_ = text::load_detokenizer(source, &why);
    if (!tables_) throw py::value_error(why);
  }

  std::string decode(const std::vector<u32>& ids) const {
    std::string out;
    text::DetokenizerState state;
    tables_->append(state, ids.data(), ids.size(), out);
    tables_->finish(state, out);
    return out;
  }

  const std::shared_ptr<const text::Detokenizer>& tables() const { return tables_; }

 private:
  std::shared_ptr<const text::Detokenizer> tables_;
};

// One text that grows by ids.
class DetokenizerStream {
 public:
  explicit DetokenizerStream(const NativeDetokenizer& of) : tables_(of.tables()) {}
  std::string append(const std::vector<u32>& ids) {
    std::string out;
    tables_->append(state_, ids.data(), ids.size(), out);
    return out;
  }
  std::string finish() {
    std::string out;
    tables_->finish(state_, out);
    return out;
  }

 private:
  std::shared_ptr<const text::Detokenizer> tables_;
  text::DetokenizerState state_;
};

std::unique_ptr<text::StopStrings> make_stops(const std::vector<std::string>& strings, bool keeps_match) {
  auto stops = std::make_unique<text::StopStrings>();
  if (!stops->assign(std::vector<std::string_view>(strings.begin(), strings.end()), keeps_match))
    throw py::value_error("stop: at most 16 strings, each of 1 to 256 bytes");
  return stops;
}

using Messages = std::vector<std::pair<std::string, std::string>>;

// The value's place in `names`.
u8 place_of(std::string_view value, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, value);
  if (value.empty() || found == names.end()) throw py::value_error("no such role or mode: " + std::string(value));
  return u8(found - names.begin());
}

std::vector<u32> chat_keys(const std::vector<std::string>& roles, const std::string& mode, u32 variant) {
  std::vector<ChatMessage> messages;
  for (const std::string& role : roles) messages.push_back({ChatRole(place_of(role, kChatRoles)), {}});
  if (messages.empty()) throw py::value_error("roles: none");
  std::vector<u32> keys;
  text::chat_keys({messages, ChatMode(place_of(mode, kChatModes)), {}}, variant, keys);
  return keys;
}

std::unique_ptr<text::ChatTemplate> make_chat(const std::string& table) {
  ChatTable read;
  if (const std::string wrong = json::parse(table, read); !wrong.empty()) throw py::value_error(wrong);
  return std::make_unique<text::ChatTemplate>(std::move(read));
}

// (text, tokens); nothing: it is not in the table.
std::optional<std::pair<py::bytes, std::vector<NativeTokenizer::Fixed>>> render_chat(const text::ChatTemplate& self,
                                                                                     const Messages& given,
                                                                                     const std::string& mode,
                                                                                     const std::string& variables) {
  std::vector<ChatMessage> messages;
  for (const auto& [role, content] : given) messages.push_back({ChatRole(place_of(role, kChatRoles)), content});
  if (messages.empty()) throw py::value_error("messages: none");
  text::RenderedChat out;
  if (!self.render({messages, ChatMode(place_of(mode, kChatModes)), variables}, out)) return std::nullopt;
  std::vector<NativeTokenizer::Fixed> tokens;
  for (const auto& [at, id, lstrip, rstrip] : out.tokens) tokens.emplace_back(at, id, lstrip, rstrip);
  return std::pair{py::bytes(out.text), std::move(tokens)};
}

std::optional<std::pair<u32, u32>> file_truncation(const NativeTokenizer& self) {
  const auto truncation = self.of().file_truncation();
  if (!truncation) return std::nullopt;
  return std::pair{truncation->max_tokens, truncation->stride};
}

}  // namespace

void register_text(py::module_& m) {
  py::class_<NativeTokenizer>(m, "NativeTokenizer", "A tokenizer in C++; fastqps.Tokenizer is the way to use it.")
      .def(py::init<const std::string&, const std::string&>(), "source"_a, "special_tokens"_a = "all",
           "Path or content of a tokenizer.json. ValueError with the reason when its family is not native. "
           "special_tokens: all, none, or trailing, which leaves out those in front of a text.")
      .def_property_readonly(
          "n_leading", [](const NativeTokenizer& self) { return self.of().n_leading(); },
          "Special tokens that are put in front of a text.")
      .def("encode", &NativeTokenizer::encode, "text"_a, "max_tokens"_a = py::none(),
           "Ids of a text, special tokens included, cut to max_tokens on the side that the file says.")
      .def("encode_pair", &NativeTokenizer::encode_pair, "first"_a, "second"_a, "max_tokens"_a = py::none(),
           "(ids, n): the first n ids have type id 0, the others second_type_id.")
      .def("encode_batch", &NativeTokenizer::encode_batch, "texts"_a, "max_tokens"_a = py::none())
      .def("encode_items", &NativeTokenizer::encode_items, "items"_a, "max_tokens"_a = py::none(), "cut"_a = "counted",
           "For each str or pair of str: (ids, ids that the whole has, ids with type id 0). cut: counted, or longest, "
           "or first, which do not count what is beyond max_tokens.")
      .def("encode_fixed", &NativeTokenizer::encode_fixed, "text"_a, "tokens"_a, "max_tokens"_a = py::none(),
           "cut"_a = "counted",
           "(ids, ids that the whole has) of a text in UTF-8 with special tokens at known places: (in front of this "
           "byte, id, takes the white space before, behind). Those that are spelled in the text are not found.")
      .def("encode_spans", &NativeTokenizer::encode_spans, "text"_a, "max_tokens"_a = py::none(),
           "(ids, ids that the whole has, for each id (start, end, continues a word) or None), if finds_spans().")
      .def(
          "finds_spans", [](const NativeTokenizer& self, u32 unknown_id) { return self.of().finds_spans(unknown_id); },
          "unknown_id"_a)
      .def(
          "n_special", [](const NativeTokenizer& self, bool pair) { return self.of().n_special(pair); }, "pair"_a)
      .def_property_readonly("family", [](const NativeTokenizer& self) { return self.of().family(); })
      .def_property_readonly("second_type_id", [](const NativeTokenizer& self) { return self.of().second_type_id(); })
      .def_property_readonly("vocab_size", [](const NativeTokenizer& self) { return self.of().vocab_size(); })
      .def_property_readonly("file_truncation", &file_truncation,
                             "What the file asks for: (max_tokens, stride), or None.");

  m.attr("WHITE_SPACE") = kPythonSpaces;
  m.def("chat_keys", &chat_keys, "roles"_a, "mode"_a, "variant"_a, "The keys of the gaps of a conversation.");
  py::class_<text::ChatTemplate>(m, "ChatTemplate", "Renders conversations by the table of a chat template.")
      .def(py::init(&make_chat), "table"_a, "JSON of a ChatTable.")
      .def("render", &render_chat, "messages"_a, "mode"_a, "variables"_a = "",
           "(text in UTF-8, its special tokens as encode_fixed() takes them) of messages, pairs of role and content; "
           "None: they are not in the table. variables: a JSON object, or ''.");

  py::class_<DetokenizerStream>(m, "DetokenizerStream")
      .def("append", &DetokenizerStream::append, "ids"_a, "The text that the next ids complete.")
      .def("finish", &DetokenizerStream::finish, "U+FFFD where the text ends within a character; begins anew.");
  py::class_<NativeDetokenizer>(m, "Detokenizer", "Ids to text in C++, without special tokens.")
      .def(py::init<const std::string&>(), "source"_a,
           "Path or content of a tokenizer.json. ValueError with the reason when its decoder is not native.")
      .def("decode", &NativeDetokenizer::decode, "ids"_a, "The text of ids; those outside of the vocabulary have none.")
      .def(
          "special_id",
          [](const NativeDetokenizer& self, const std::string& text) { return self.tables()->special_id(text); },
          "text"_a, "The id of the special token that is spelled so, or None.")
      .def(
          "stream", [](const NativeDetokenizer& self) { return DetokenizerStream(self); },
          "A text that grows by ids, given out in whole characters.");

  py::class_<text::StopStrings>(m, "StopStrings", "Where a text that comes in pieces first contains a stop string.")
      .def(py::init(&make_stops), "strings"_a, "keeps_match"_a = false,
           "keeps_match: it ends the text. ValueError where there are too many, or one is empty or too long.")
      .def(
          "feed",
          [](text::StopStrings& self, const std::string& piece) {
            std::string out;
            const bool matched = self.feed(piece, out);
            return std::pair{out, matched};
          },
          "piece"_a, "(the text that can be given out now, whether a stop string is complete) behind whole characters.")
      .def(
          "finish",
          [](text::StopStrings& self) {
            std::string out;
            self.finish(out);
            return out;
          },
          "The text has ended: what was held back.");
}

}  // namespace fastqps::bind
