// What the parts of the segment's class have in common.
#pragma once
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "bind/bind.h"
#include "contract/card.h"

namespace fastqps::bind {

using SegmentClass = pybind11::class_<SegmentHandle>;
void define_processes(SegmentClass& segment);
void define_models(SegmentClass& segment);
void define_load(SegmentClass& segment);
void define_upstreams(SegmentClass& segment);

inline ModelCard read_model_card(const std::string& json) {
  ModelCard card;
  if (const std::string wrong = read_card(json, card); !wrong.empty())
    throw std::runtime_error("the model's card: " + wrong);
  return card;
}

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
