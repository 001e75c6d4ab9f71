#include "parallel/packed_sum.h"

#include <map>
#include <string>
#include <utility>

#include "ops/data_movement/pack.h"
#include "ops/data_movement/views.h"

namespace plimsoll::parallel {

using graph::Program;
using graph::TensorId;
using graph::Value;

namespace {

Value EmitGradient(graph::Builder& g, std::string_view op, std::vector<Value> inputs,
                   graph::Attributes attributes, std::string_view name) {
  const Value y = g.Emit1(op, std::move(inputs), std::move(attributes), name);
  g.program().mutable_tensor(y).role = graph::Role::kGradient;
  return y;
}

}  // namespace

std::vector<std::vector<TensorId>> SmallOfOneType(const Program& program,
                                                  const std::vector<TensorId>& gradients,
                                                  int64_t below) {
  std::map<graph::DType, std::vector<TensorId>> of_types;
  for (TensorId id : gradients) {
    const graph::Tensor& gradient = program.tensor(id);
    if (gradient.bytes() < below) of_types[gradient.type.dtype].push_back(id);
  }
  std::vector<std::vector<TensorId>> sets;
  for (auto& [dtype, of_type] : of_types) {
    if (of_type.size() > 1) sets.push_back(std::move(of_type));
  }
  return sets;
}

Value StartPackedSum(graph::Builder& g, const std::vector<TensorId>& gradients,
                     std::string_view axis) {
  const Value flat = EmitGradient(g, "pack", gradients, {}, "gradients");
  return EmitGradient(g, "all_reduce_start", {flat}, {{"axis", std::string(axis)}},
                      "gradients.sum");
}

std::vector<Value> FinishPackedSum(graph::Builder& g, Value sum,
                                   const std::vector<TensorId>& gradients) {
  const Value flat = EmitGradient(g, "all_reduce_done", {sum}, {}, "gradients.reduced");
  std::vector<Value> sums;
  int64_t first = 0;
  for (TensorId id : gradients) {
    const graph::Shape shape = g.shape(id);
    const std::string name = g.program().tensor(id).name + ".reduced";
    sums.push_back(ops::Slice(g, flat, first, shape, name));
    first += ops::PackedElements(shape.elements());
  }
  return sums;
}

}  // namespace plimsoll::parallel
