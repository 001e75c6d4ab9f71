#include "parallel/gradient_buckets.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/axes.h"
#include "ops/collectives/collective.h"
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

// The sets of several gradients, each of fewer bytes and all of one type, that can share a sum.
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

void PackSmall(const Program& program, Bucket& bucket, int64_t small_bytes) {
  std::vector<TensorId> gradients;
  for (const Summand& summand : bucket.reduced) gradients.push_back(summand.tensor);
  for (std::vector<TensorId>& set : SmallOfOneType(program, gradients, small_bytes)) {
    std::erase_if(bucket.reduced, [&](const Summand& summand) {
      return std::ranges::find(set, summand.tensor) != set.end();
    });
    bucket.packed.push_back({std::move(set)});
  }
}

}  // namespace

std::vector<Bucket> BucketsOf(const Program& program, std::vector<Summand> gradients,
                              int64_t bucket_bytes, int64_t small_bytes) {
  std::ranges::stable_sort(gradients, {}, &Summand::written);
  std::vector<Bucket> buckets;
  int64_t bytes = bucket_bytes;  // of the last bucket
  for (Summand& summand : gradients) {
    if (bytes >= bucket_bytes) {
      buckets.emplace_back();
      bytes = 0;
    }
    bytes += program.tensor(summand.tensor).bytes();
    Bucket& bucket = buckets.back();
    bucket.behind = summand.written;
    (summand.part != graph::kNoTensor ? bucket.scattered : bucket.reduced)
        .push_back(std::move(summand));
  }
  for (Bucket& bucket : buckets) PackSmall(program, bucket, small_bytes);
  return buckets;
}

Value StartPackedSum(graph::Builder& g, const std::vector<TensorId>& gradients) {
  const Value flat = EmitGradient(g, "pack", gradients, {}, "gradients");
  return EmitGradient(g, "all_reduce_start", {flat}, ops::AlongAxis(kDataAxis), "gradients.sum");
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
