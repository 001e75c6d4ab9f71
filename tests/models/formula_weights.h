// Weights and data that follow from names, for comparisons with other programs without large files:
// the formulas of check_with_torchvision.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors_writer.h"

namespace plimsoll::models {

// Numbers in [-1, 1) that depend on name and position alone (splitmix64 of FNV-1a).
inline std::vector<double> UniformByName(const std::string& name, int64_t count) {
  uint64_t seed = 0xcbf29ce484222325u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::vector<double> values;
  for (int64_t i = 1; i <= count; ++i) {
    uint64_t x = seed + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    values.push_back(static_cast<double>(x >> 11) * 0x1p-52 - 1);
  }
  return values;
}

inline bool IsCount(const std::string& name) { return name.ends_with("num_batches_tracked"); }
inline int64_t CountByName(const std::string& name) {
  return 1000 + static_cast<int64_t>(name.size());
}

inline std::vector<float> WeightsByName(const std::string& name,
                                        const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  double factor = 0.3, middle = 0;
  if (shape.size() > 1) {
    factor = std::sqrt(6 / static_cast<double>(count / shape[0]));
  } else if (name.ends_with("running_var") || name.ends_with(".weight")) {
    const double size = name.ends_with(".bn3.weight") ? 0.05 : 1;
    factor = 0.5 * size;
    middle = size;
  }
  std::vector<float> values;
  for (const double x : UniformByName(name, count)) {
    values.push_back(static_cast<float>(middle + factor * x));
  }
  return values;
}

// Writes such weights to a safetensors file, without the tensors whose names end with `leave_out`.
inline void WriteWeightsByName(const std::string& path,
                               const std::map<std::string, std::vector<int64_t>>& shapes,
                               const std::string& leave_out = "-") {
  using formats::TensorType;
  std::vector<formats::TensorSpec> specs;
  for (const auto& [name, shape] : shapes) {
    if (name.ends_with(leave_out)) continue;
    specs.push_back({name, IsCount(name) ? TensorType::kI64 : TensorType::kF32, shape});
  }
  formats::WriteSafetensors(path, specs,
                            [](const formats::TensorSpec& spec, formats::TensorSink& sink) {
                              if (!IsCount(spec.name)) {
                                sink.WriteFloat32(WeightsByName(spec.name, spec.shape));
                                return;
                              }
                              const int64_t count = CountByName(spec.name);
                              sink.Write(std::as_bytes(std::span(&count, 1)));
                            });
}

}  // namespace plimsoll::models
