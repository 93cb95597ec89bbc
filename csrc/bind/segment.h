// What the parts of the segment's class have in common.
#pragma once
#include <initializer_list>
#include <string>
#include <utility>

#include "bind/bind.h"

namespace fastqps::bind {

using SegmentClass = pybind11::class_<SegmentHandle>;
void define_processes(SegmentClass& segment);
void define_models(SegmentClass& segment);
void define_load(SegmentClass& segment);
void define_upstreams(SegmentClass& segment);

// A dataclass of Python, read by the names of its fields.
struct Attributes {
  pybind11::handle of;
  template <class T>
  T get(const char* name) const {
    return of.attr(name).cast<T>();
  }
};

template <class Enum>
Enum choice(const std::string& name, std::initializer_list<std::pair<const char*, Enum>> all, const char* what) {
  for (auto& [text, value] : all)
    if (name == text) return value;
  throw pybind11::value_error(std::string(what) + ": unknown value '" + name + "'");
}

template <class T>
T& checked(T& thing, u32 i, u32 n) {
  if (i >= n) throw pybind11::index_error();
  return thing;
}

}  // namespace fastqps::bind
