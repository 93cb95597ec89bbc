#include "protocols/json/structures.h"

namespace fastqps::protocols {

namespace {

void set_structure(RequestView& view, Structure kind, const char* field) {
  view.has_generate = true;
  view.generate.structure = i32(kind);
  view.generate.structure_field = field;
}

}  // namespace

FieldError read_structure(const GivenField& field, Structure kind, RequestView& view, std::string& text) {
  if (view.generate.structure) return {field.name, "is given beside another structure"};
  set_structure(view, kind, field.name);
  const OptionValue option = field.option();
  if (option.kind == OptionValue::Kind::kString) return view.generate.structure_text = option.text, FieldError{};
  if (kind != Structure::kJsonSchema) return {field.name, "must be a string"};
  if (!field.value.is_object() && !field.value.is_bool()) return {field.name, "must be a JSON Schema"};
  text = simdjson::minify(field.value);
  return view.generate.structure_text = text, FieldError{};
}

FieldError read_response_format(const GivenField& field, RequestView& view, std::string& text) {
  JsonObject format, named;
  if (field.value.get(format)) return {field.name, R"(must be an object, such as {"type": "json_object"})"};
  JsonValue type, schema;
  if (format["type"].get(type)) return {"response_format.type", "must be given"};
  size_t which = 0;
  if (const FieldError error =
          read_word({"response_format.type", type, field.reason}, {"text", "json_object", "json_schema"}, which))
    return error;
  if (which == 0) return {};
  if (which == 1) {
    if (view.generate.structure) return {field.name, "is given beside another structure"};
    return set_structure(view, Structure::kJsonObject, field.name), FieldError{};
  }
  if (format["json_schema"].get(named)) return {"response_format.json_schema", "must be an object with a schema"};
  if (named["schema"].get(schema)) return {"response_format.json_schema.schema", "must be given"};
  return read_structure({"response_format.json_schema.schema", schema, field.reason}, Structure::kJsonSchema, view,
                        text);
}

FieldError read_json_object(const GivenField& field, RequestView& view, std::string&) {
  bool asked = false;
  if (field.value.get(asked)) return {field.name, "must be a bool"};
  if (!asked) return {};
  if (view.generate.structure) return {field.name, "is given beside another structure"};
  return set_structure(view, Structure::kJsonObject, field.name), FieldError{};
}

}  // namespace fastqps::protocols
