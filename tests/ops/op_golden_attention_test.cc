// Attention compared with PyTorch's scaled_dot_product_attention.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

// Padding is masked as a key, and its own results and gradients are zero.
TEST_P(GoldenTest, AttentionWithLengths) {
  Golden golden = Read("attention_lengths");
  const HostTensor qkv = Make(golden["qkv"]);
  const HostTensor lengths = Make(golden["lengths"], graph::DType::kInt32);
  const graph::Attributes attributes = {
      {"heads", 4}, {"kv_heads", 2}, {"causal", false}, {"dropout", 0.0}, {"key", int64_t{0}}};
  const std::optional<HostTensor> none;
  const Outputs forward = Call("attention", attributes, {qkv, none, lengths});
  ExpectNear(forward[0], golden["y"]);
  ExpectNear(Call("attention_backward", attributes,
                  {qkv, forward[0], forward[1], Make(golden["dy"]), none, lengths})[0],
             golden["dqkv"]);
}

}  // namespace
}  // namespace plimsoll::ops
