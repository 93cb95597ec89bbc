// Token ids to text, piece by piece: only whole characters are given out, and all pieces together are byte for byte
// what `tokenizers` decodes the whole to (without special tokens).
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/file_reader.h"

namespace fastqps::text {

// Where a request's text stands. A new one, or one after finish(), is at the beginning.
struct DetokenizerState {
  std::array<u8, 3> held{};  // the bytes of a character that is not complete yet
  u8 n_held = 0;
  // SentencePiece only.
  bool begun = false;  // a token has come
  u32 n_stripped = 0;  // spaces taken from the beginning; the maximum once other text has come
  std::string bytes;   // a run of byte tokens: decoded together, or one U+FFFD for each if that is not valid UTF-8
};

// How SentencePiece's tokens become text.
struct PieceRules {
  bool spaces = false;       // U+2581 is a space, also that of byte tokens if meta_spaces
  bool meta_spaces = false;  // Metaspace does it
  bool drops_first = false;  // but in the first token it is nothing
  bool byte_tokens = false;  // tokens such as <0x0A> are bytes
  u32 strip = 0;             // spaces that are taken from the beginning
};

// Immutable, for all threads.
class Detokenizer {
 public:
  // Ids and their texts; special tokens have none. Of two entries for one id the later counts.
  using Tokens = std::vector<std::pair<u32, std::string>>;
  explicit Detokenizer(const Tokens& tokens);  // texts are bytes
  Detokenizer(const Tokens& tokens, PieceRules rules);

  // Appends the text of the next ids to out. Ids outside of the vocabulary have no text. Bytes that cannot become a
  // character are U+FFFD, one for each longest beginning of one, as Rust's String::from_utf8_lossy has it.
  void append(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const;

  // To be called at the end: a character that was never completed becomes U+FFFD.
  void finish(DetokenizerState& state, std::string& out) const;

  std::string_view bytes(u32 id) const {
    return id < n_ids() ? std::string_view(bytes_).substr(starts_[id], starts_[id + 1] - starts_[id]) : "";
  }
  u32 n_ids() const { return static_cast<u32>(starts_.size() - 1); }

  // Special tokens, as they are spelled. They have no part in a text.
  void set_specials(Tokens specials) { specials_ = std::move(specials); }
  std::optional<u32> special_id(std::string_view spelled) const;
  std::string_view special(u32 id) const;  // empty: it is none

 private:
  void fill(const Tokens& tokens);
  void append_pieces(DetokenizerState& state, const u32* ids, std::size_t n, std::string& out) const;
  void put_piece(DetokenizerState& state, std::string_view piece, std::string& out) const;
  void put_bytes(DetokenizerState& state, std::string& out) const;
  std::string first_piece(u32 id, std::string_view piece) const;

  std::string bytes_;
  std::vector<u32> starts_;  // by id, and the end
  Tokens specials_;
  std::optional<PieceRules> rules_;
  std::vector<bool> is_byte_;
  std::unordered_map<u32, std::string> real_spaces_;  // tokens that have other spaces than U+2581, as they are spelled
};

class DetokenizerReader : private FileReader {
 public:
  explicit DetokenizerReader(std::string& why) : FileReader(config_, why) {}
  std::shared_ptr<const Detokenizer> read(const nlohmann::json& file);

 private:
  bool decoder(const Json& at);
  bool pieces(const Json& at);  // SentencePiece's
  bool piece_step(const Json& at);
  bool strip(const Json& at);
  bool normalized(const Json& at);
  FileConfig config_;
  bool by_piece_ = false, fused_ = false;
  PieceRules rules_;
};

// `source` as load_native has it. Null, with the reason in *why, when the file's decoder is neither ByteLevel nor
// SentencePiece's.
std::shared_ptr<const Detokenizer> load_detokenizer(const std::string& source, std::string* why);

}  // namespace fastqps::text
