// A field that holds a request's texts, such as OpenAI's "input" and "prompt". A string, an array of token ids, or an
// array of strings and of arrays of token ids.
#pragma once
#include <vector>

#include "protocols/json/json_body.h"

namespace fastqps::protocols {

class TextInput {
 public:
  // field: its name, a literal.
  TextInput(const char* field, u32 items_max) : field_(field), items_max_(items_max) {}

  void clear();
  FieldError read(const JsonValue& value, ReasonText& reason);
  bool given() const { return given_; }
  u32 items() const { return u32(items_.size()); }
  // Sets the view's input.
  void item(u32 index, RequestView& view) const;

 private:
  struct Item {
    Input kind;
    std::string_view text;  // kText
    size_t from, count;     // kTokenIds: of ids_
  };
  FieldError read_array(const JsonArray& values, ReasonText& reason);
  FieldError read_ids(const JsonArray& values, ReasonText& reason);
  FieldError read_id(const JsonValue& value, ReasonText& reason);
  void add_text(std::string_view text) { items_.push_back({Input::kText, text, 0, 0}); }

  const char* const field_;
  const u32 items_max_;
  bool given_ = false;
  std::vector<Item> items_;
  std::vector<u32> ids_;  // of all items
};

}  // namespace fastqps::protocols
