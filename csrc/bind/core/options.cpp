// The rows of contract/options.h for Python.
#include "contract/options.h"

#include <vector>

#include "bind/bind.h"

namespace py = pybind11;

namespace fastqps::bind {
namespace {

struct OptionRow {
  const char* path;
  u32 number;
  const char* kind;
  double high;
  bool above_zero;
  u8 traits;
  const char* checkpoint;

  std::string_view name() const { return std::string_view(path).substr(std::string_view(path).find('.') + 1); }
  template <OptionTrait trait>
  bool is() const {
    return traits & trait;
  }
};

constexpr const char* kind_of(u32) { return "uint32"; }
constexpr const char* kind_of(u64) { return "uint64"; }
constexpr const char* kind_of(i32) { return "enum"; }
constexpr const char* kind_of(float) { return "float"; }
constexpr const char* kind_of(bool) { return "bool"; }
constexpr const char* kind_of(std::optional<bool>) { return "bool"; }
constexpr const char* kind_of(const IdList&) { return "ids"; }
constexpr const char* kind_of(TextCount) { return "texts"; }

}  // namespace

void register_options(py::module_& m) {
  py::class_<OptionRow>(m, "OptionRow", "An option of requests; see csrc/contract/options.h.")
      .def_readonly("path", &OptionRow::path)
      .def_property_readonly("name", &OptionRow::name)
      .def_readonly("number", &OptionRow::number)
      .def_readonly("kind", &OptionRow::kind)
      .def_readonly("high", &OptionRow::high)
      .def_readonly("above_zero", &OptionRow::above_zero)
      .def_readonly("checkpoint", &OptionRow::checkpoint)
      .def_property_readonly("optional", &OptionRow::is<kOptional>)
      .def_property_readonly("zero_is_absent", &OptionRow::is<kZeroIsAbsent>)
      .def_property_readonly("by_name", &OptionRow::is<kByName>)
      .def_property_readonly("all_is_minus_one", &OptionRow::is<kAllIsMinusOne>)
      .def_property_readonly("changes_logits", &OptionRow::is<kChangesLogits>);
  std::vector<OptionRow> rows;
  const auto add = [&rows](const auto& row) {
    const typename std::decay_t<decltype(row)>::Value value{};
    rows.push_back(
        {row.path, row.number, kind_of(value), row.range.high, row.range.above_zero, row.traits, row.checkpoint});
  };
  each_option(kGenerateOptions, add);
  each_option(kOutputOptions, add);
  py::tuple options(rows.size());
  for (size_t i = 0; i < rows.size(); i++) options[i] = rows[i];
  m.attr("OPTIONS") = options;
}

}  // namespace fastqps::bind
