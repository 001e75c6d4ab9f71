// Scratch memory that depends on the kind of GPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/compute_capability.h"
#include "graph/op.h"
#include "ops/attention/attention.h"
#include "ops/cuda_workspace.h"
#include "ops/loss/linear_cross_entropy.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;
using graph::TensorType;

constexpr ComputeCapability kAmpere{8, 0}, kRtx3090{8, 6}, kHopper{9, 0}, kRtx5090{12, 0};

int64_t AttentionBackward(int64_t head, ComputeCapability gpu, DType dtype = DType::kBFloat16,
                          int64_t kv_heads = 12) {
  constexpr int64_t kBatch = 16, kSequence = 1024, kHeads = 12;
  const TensorType qkv{dtype, Shape{kBatch, kSequence, (kHeads + 2 * kv_heads) * head}};
  const TensorType out{dtype, Shape{kBatch, kSequence, kHeads * head}};
  const TensorType lse{DType::kFloat32, Shape{kBatch, kHeads, kSequence}};
  const std::vector<const TensorType*> inputs = {&qkv, &out, &lse, &out}, outputs = {&qkv};
  const graph::Attributes attributes{{"heads", kHeads},
                                     {"kv_heads", kv_heads},
                                     {"causal", true},
                                     {"dropout", 0.0},
                                     {"key", int64_t{0}}};
  const graph::OpDef& op = graph::OpRegistry::Get().Require("attention_backward");
  return CudaWorkspaceBytes({op, inputs, outputs, attributes}, gpu);
}

// Our kernels by mma.sync keep a float for each query of a head, and sums if few heads share all
// keys; those of Hopper keep more.
TEST(WorkspaceByGpu, OfAttentionIsWhatTheKernelsOfTheGpuTake) {
  const int64_t rows = AttentionLseBytes(16 * 12 * 1024);
  for (const ComputeCapability gpu : {kAmpere, kRtx3090, kRtx5090}) {
    for (const int64_t head : {40, 64, 128}) EXPECT_EQ(AttentionBackward(head, gpu), rows) << head;
    EXPECT_EQ(AttentionBackward(64, gpu, DType::kFloat32), rows);
    EXPECT_GT(AttentionBackward(256, gpu), 100 * rows);  // cuDNN's
    // With 2 key-value heads, 256 blocks of keys have two gradients each, and a counter.
    EXPECT_EQ(AttentionBackward(64, gpu, DType::kBFloat16, 2), rows + 256 * (2 * 128 * 64 * 4 + 4));
  }
  EXPECT_GT(AttentionBackward(64, kHopper), 10 * rows);
  EXPECT_LT(AttentionBackward(256, kHopper), 3 * rows);
  EXPECT_EQ(AttentionBackward(64, kHopper, DType::kFloat32), rows);
}

TEST(WorkspaceByGpu, OnlyHopperStoresExponentialsOfTheLoss) {
  const auto bytes = [](ComputeCapability gpu) {
    return LayOutCudaLoss(4096, 50304, 768, DType::kFloat16, {.dx = true, .gpu = gpu}).bytes;
  };
  EXPECT_EQ(bytes(kRtx3090), bytes(kRtx5090));
  EXPECT_LT(bytes(kRtx3090), bytes(kHopper));
}

}  // namespace
}  // namespace plimsoll::ops
