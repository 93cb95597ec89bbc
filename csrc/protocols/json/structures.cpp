#include "protocols/json/structures.h"

namespace fastqps::protocols {

FieldError read_structure(const GivenField& field, Structure kind, RequestView& view, std::string& text) {
  if (view.generate.structure) return {field.name, "is given beside another structure"};
  view.has_generate = true;
  view.generate.structure = i32(kind);
  const OptionValue option = field.option();
  if (option.kind == OptionValue::Kind::kString) return view.generate.structure_text = option.text, FieldError{};
  if (kind != Structure::kJsonSchema) return {field.name, "must be a string"};
  if (!field.value.is_object() && !field.value.is_bool()) return {field.name, "must be a JSON Schema"};
  text = simdjson::minify(field.value);
  return view.generate.structure_text = text, FieldError{};
}

FieldError read_choices(const GivenField& field, RequestView& view, std::string& text) {
  if (view.generate.structure) return {field.name, "is given beside another structure"};
  JsonArray choices;
  if (field.value.get(choices) || choices.size() == 0) return {field.name, "must be an array of strings, at least 1"};
  text.clear();
  for (const JsonValue choice : choices) {
    std::string_view literal;
    if (choice.get(literal) || literal.empty()) return {field.name, "must have strings that are not empty"};
    if (!text.empty()) text += '|';
    for (const char each : literal) {
      if (std::string_view(R"(\.+*?()|[]{}^$#&-~/")").find(each) != std::string_view::npos) text += '\\';
      text += each;
    }
  }
  view.has_generate = true;
  view.generate.structure = i32(Structure::kRegex);
  return view.generate.structure_text = text, FieldError{};
}

FieldError read_response_format(const GivenField& field, RequestView& view, std::string& text) {
  JsonObject format, named;
  if (field.value.get(format)) return {field.name, "must be an object"};
  JsonValue type, schema;
  if (format["type"].get(type)) return {"response_format.type", "must be given"};
  size_t which = 0;
  if (const FieldError error =
          read_word({"response_format.type", type, field.reason}, {"text", "json_object", "json_schema"}, which))
    return error;
  if (which == 0) return {};
  if (which == 1) {
    if (view.generate.structure) return {field.name, "is given beside another structure"};
    view.has_generate = true;
    return view.generate.structure = i32(Structure::kJsonObject), FieldError{};
  }
  if (format["json_schema"].get(named)) return {"response_format.json_schema", "must be an object with a schema"};
  if (named["schema"].get(schema)) return {"response_format.json_schema.schema", "must be given"};
  return read_structure({"response_format.json_schema.schema", schema, field.reason}, Structure::kJsonSchema, view,
                        text);
}

FieldError read_structured_outputs(const GivenField& field, RequestView& view, std::string& text) {
  JsonObject given;
  if (field.value.get(given)) return {field.name, "must be an object"};
  for (const auto [name, value] : given) {
    if (value.is_null()) continue;
    FieldError error;
    bool object = false;
    if (name == "json") {
      error = read_structure({"structured_outputs.json", value, field.reason}, Structure::kJsonSchema, view, text);
    } else if (name == "regex") {
      error = read_structure({"structured_outputs.regex", value, field.reason}, Structure::kRegex, view, text);
    } else if (name == "grammar") {
      error = read_structure({"structured_outputs.grammar", value, field.reason}, Structure::kGrammar, view, text);
    } else if (name == "choice") {
      error = read_choices({"structured_outputs.choice", value, field.reason}, view, text);
    } else if (name == "json_object" && !value.get(object)) {
      if (object && view.generate.structure) return {field.name, "has two structures"};
      if (object) view.has_generate = true, view.generate.structure = i32(Structure::kJsonObject);
    } else {
      return {field.name, field.reason.print("'%.*s' is none of json, json_object, regex, choice and grammar",
                                             shown(name), name.data())};
    }
    if (error) return error;
  }
  return {};
}

}  // namespace fastqps::protocols
