// The field that holds a request's texts: "input" of embeddings, "prompt" of completions. A string, an array of
// strings, an array of token ids, or an array of arrays of them.
#pragma once
#include <vector>

#include "json/json_body.h"

namespace fastqps::front {

class TextInput {
 public:
  // field: its name, a literal.
  TextInput(const char* field, u32 items_max) : field_(field), items_max_(items_max) {}

  void clear();
  FieldError read(const simdjson::dom::element& value, ReasonText& reason);
  bool given() const { return given_; }
  u32 items() const { return u32(texts_.size() + rows_.size()); }
  void item(u32 index, RequestView& view) const;

 private:
  struct Row {
    size_t from, count;
  };
  FieldError read_array(const simdjson::dom::array& values, ReasonText& reason);
  FieldError read_row(const simdjson::dom::array& values, ReasonText& reason);
  FieldError read_id(const simdjson::dom::element& value, ReasonText& reason);

  const char* const field_;
  const u32 items_max_;
  bool given_ = false;
  std::vector<std::string_view> texts_;
  std::vector<Row> rows_;
  std::vector<u32> ids_;  // of all rows
};

}  // namespace fastqps::front
