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

// Packs gradients with fewer than `small_bytes`, if the bucket has several of one type.
void PackSmall(const Program& program, Bucket& bucket, int64_t small_bytes) {
  std::map<graph::DType, std::vector<TensorId>> small;
  for (const Summand& summand : bucket.reduced) {
    const graph::Tensor& gradient = program.tensor(summand.tensor);
    if (gradient.bytes() < small_bytes) small[gradient.type.dtype].push_back(summand.tensor);
  }
  for (auto& [dtype, gradients] : small) {
    if (gradients.size() < 2) continue;
    std::erase_if(bucket.reduced, [&](const Summand& summand) {
      return std::ranges::find(gradients, summand.tensor) != gradients.end();
    });
    bucket.packed.push_back({std::move(gradients)});
  }
}

}  // namespace

std::vector<Bucket> BucketsOf(const Program& program, std::vector<Summand> gradients,
                              int64_t bucket_bytes, int64_t small_bytes) {
  std::ranges::stable_sort(gradients, {}, &Summand::written);
  std::vector<Bucket> buckets;
  int64_t bytes = bucket_bytes;  // bytes of the last bucket
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
