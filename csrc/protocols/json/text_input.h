// Fields that hold a request's texts.
#pragma once
#include <string>
#include <vector>

#include "protocols/json/fields_reader.h"

namespace fastqps::protocols {

// Such as OpenAI's "input" and "prompt": a string, an array of token ids, or an array of strings and of arrays of token
// ids.
class TextInput {
 public:
  explicit TextInput(u32 items_max) : items_max_(items_max) {}

  void clear();
  FieldError read(const GivenField& field);
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
  FieldError read_array(const GivenField& field, const JsonArray& values);
  FieldError read_ids(const GivenField& field, const JsonArray& values);
  void add_text(std::string_view text) { items_.push_back({Input::kText, text, 0, 0}); }

  const u32 items_max_;
  bool given_ = false;
  std::vector<Item> items_;
  std::vector<u32> ids_;  // of all items
};

// Such as Cohere's "texts": an array of strings.
class TextList {
 public:
  enum class Form : u8 { kArray, kOneOrArray, kDocuments };  // a string alone; objects with a text, too
  explicit TextList(u32 texts_max, Form form = Form::kArray) : texts_max_(texts_max), form_(form) {}

  void clear();
  FieldError read(const GivenField& field);
  // Whether there is a text. name: of the field.
  FieldError check(const char* name, ReasonText& reason) const;
  bool is_array() const { return is_array_; }
  const std::vector<std::string_view>& texts() const { return texts_; }
  u32 items() const { return u32(texts_.size()); }
  void item(u32 index, RequestView& view) const {
    view.input = Input::kText;
    view.text = texts_[index];
  }

 private:
  const char* noun() const { return form_ == Form::kDocuments ? "documents" : "texts"; }

  const u32 texts_max_;
  const Form form_;
  bool given_ = false, is_array_ = false;
  std::vector<std::string_view> texts_;
};

}  // namespace fastqps::protocols
