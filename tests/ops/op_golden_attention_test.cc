// Attention compared with PyTorch's scaled_dot_product_attention, and with what transformers does
// of Gemma 2's where there is a soft cap.
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

TEST_P(GoldenTest, AttentionUnderASoftCap) {
  Golden golden = Read("attention_softcap");
  const HostTensor qkv = Make(golden["qkv"]);
  const graph::Attributes attributes = {{"heads", 4},        {"kv_heads", 2}, {"causal", true},
                                        {"dropout", 0.0},    {"scale", 0.7},  {"softcap", 1.2},
                                        {"key", int64_t{0}}, {"window", 4}};
  const std::optional<HostTensor> none;
  const Outputs forward = Call("attention", attributes, {qkv, none});
  ExpectNear(forward[0], golden["y"]);
  ExpectNear(Call("attention_backward", attributes,
                  {qkv, forward[0], forward[1], Make(golden["dy"]), none})[0],
             golden["dqkv"]);
}

}  // namespace
}  // namespace plimsoll::ops
