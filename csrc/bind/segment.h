// The common part of the definitions of the segment's class.
#pragma once
#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "bind/bind.h"
#include "contract/card.h"
#include "core/layout/histogram.h"

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

// A tuple of a C array's elements as an attribute, with its type for stubs.
template <class Element, class Row, size_t n>
void add_tuple(pybind11::module_& m, const char* name, const Row (&rows)[n]) {
  pybind11::tuple out(n);
  for (size_t i = 0; i < n; i++) out[i] = rows[i];
  m.attr_with_type_hint<pybind11::typing::Tuple<Element, pybind11::ellipsis>>(name) = out;
}

template <class T>
T& checked(T& thing, u32 i, u32 n) {
  if (i >= n) throw pybind11::index_error();
  return thing;
}

// A histogram of the segment as Python reads it.
struct HistogramCounts {
  u64 count, sum;
  pybind11::array_t<u64> buckets;
};

inline HistogramCounts read(const Histogram& h) {
  pybind11::array_t<u64> buckets(Histogram::kBuckets);
  u64* out = buckets.mutable_data();
  for (u32 i = 0; i < Histogram::kBuckets; i++) out[i] = h.bucket[i].load(kRelaxed);
  return {h.count.load(kRelaxed), h.sum.load(kRelaxed), buckets};
}

}  // namespace fastqps::bind
