#include "ops/elementwise/add_rounded.h"

#include "ops/definition.h"

namespace plimsoll::ops {
namespace {

using graph::Check;
using graph::DType;
using graph::OpCall;
using graph::TensorType;
using graph::Value;

std::vector<TensorType> InferAddRounded(const OpCall& call) {
  const TensorType &acc = call.input(0), &x = call.input(1);
  Check(acc.dtype == DType::kBFloat16, call, "acc must be bf16");
  Check((x.dtype == DType::kFloat32 || x.dtype == DType::kBFloat16) && x.shape == acc.shape, call,
        "x must be f32 or bf16 and of acc's shape");
  CheckRng(call, 2);
  call.attributes.GetInt("key");
  return {acc};
}

const graph::OpRegistration kAddRounded({
    .name = "add_rounded",
    .inputs = {{"acc"}, {"x"}, {"rng"}},
    .outputs = {{"y"}},
    .infer = &InferAddRounded,
    .gradient = {},
    .cost = FlopsPerElement(1),
    .in_place = {{0, 0}},
    .random = true,
});

}  // namespace

Value AddRounded(graph::Builder& g, Value acc, Value x, Value rng, std::string_view name) {
  return g.Emit1("add_rounded", {acc, x, rng}, {{"key", g.NextKey()}}, name);
}

}  // namespace plimsoll::ops
