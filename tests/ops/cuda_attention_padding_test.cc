// Padded rows in attention's gradients in one pass on Hopper
// (ops/attention/attention_backward_ways.h), of narrow heads and of wide ones: they agree with the
// CPU's, no bit depends on what padding holds, and a row has the bits of a row that ends where its
// padding begins. On other GPUs the same is asked of the kernels that serve there, but for the
// last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/capability.h"
#include "ops/attention/attention_backward_ways.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

struct Case {
  int64_t batch, sequence, heads, kv_heads, head;
  bool causal;
  double dropout = 0;

  int64_t Width() const { return (heads + 2 * kv_heads) * head; }
};

// For messages.
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.batch << " rows of " << c.sequence << ", " << c.heads << " heads, " << c.kv_heads
             << " of keys, width " << c.head << (c.causal ? ", causal" : "") << ", dropout "
             << c.dropout;
}

gpu::Libraries& Libraries() {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  return *libraries;
}

Attributes AttributesOf(const Case& c) {
  return {{"heads", c.heads},     {"kv_heads", c.kv_heads}, {"causal", c.causal},
          {"dropout", c.dropout}, {"key", int64_t{7}},      {"tf32", false}};
}

// Whether Hopper computes the gradient in one pass.
bool InOnePass(const Case& c) {
  const OnePassAttention narrow(c.batch, c.sequence, c.heads, c.kv_heads, c.causal);
  const WideAttention wide(c.batch, c.sequence, c.heads, c.kv_heads, c.causal);
  return PrefersOnePass(narrow, c.head) || PrefersWideOnePass(wide, c.head);
}

// Lengths around the sizes of tiles, blocks of keys and chunks of queries, of which the first is
// the sequence's; none is longer than it.
TestTensor Lengths(const Case& c) {
  constexpr int64_t kSome[] = {1 << 20, 65, 0, 1, 63, 64, 127, 128, 129, 192, 511, 513, 1000};
  std::vector<double> lengths;
  for (int64_t b = 0; b < c.batch; ++b) {
    lengths.push_back(static_cast<double>(std::min(c.sequence, kSome[b % std::size(kSome)])));
  }
  return Values(DType::kInt32, {c.batch}, lengths);
}

// `x` of [batch, sequence, …] with `value` in the padding.
TestTensor WithPadding(const TestTensor& x, const TestTensor& lengths, double value) {
  TestTensor padded(x.type());
  const int64_t sequence = x.type().shape.dim(1), columns = x.type().shape.dim(2);
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t token = i / columns;
    const auto length = static_cast<int64_t>(lengths.at(token / sequence));
    padded.set(i, token % sequence < length ? x.at(i) : value);
  }
  return padded;
}

// Largest |got − want| / (1 + |want|).
double Error(const TestTensor& got, const TestTensor& want) {
  EXPECT_EQ(got.type(), want.type());
  double largest = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got.at(i) - want.at(i)) / (1 + std::abs(want.at(i)));
    if (!(error <= largest)) largest = error;  // NaN stays
  }
  return largest;
}

class CudaAttentionPaddingTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }
};

TEST_P(CudaAttentionPaddingTest, LeavesPaddingOut) {
  const Case c = GetParam();
  ASSERT_TRUE(InOnePass(c));
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4}), lengths = Lengths(c);
  const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(testing::Message() << graph::Name(dtype) << ": " << c);
    const TestTensor qkv = NormalValues(dtype, {c.batch, c.sequence, c.Width()}, 1);
    const TestTensor dout = NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2);
    const auto forward = RunOp("attention", {&qkv, given, &lengths}, AttributesOf(c));
    const auto run = [&](double padding) {
      const TestTensor padded_qkv = WithPadding(qkv, lengths, padding);
      const TestTensor padded_dout = WithPadding(dout, lengths, padding);
      return RunCudaOp("attention_backward",
                       {&padded_qkv, &forward[0], &forward[1], &padded_dout, given, &lengths},
                       Libraries(), AttributesOf(c))[0];
    };
    const auto want =
        RunOp("attention_backward", {&qkv, &forward[0], &forward[1], &dout, given, &lengths},
              AttributesOf(c));
    const TestTensor got = run(NAN);
    const double unit = dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
    EXPECT_LE(Error(got, want[0]), 8 * unit);
    EXPECT_TRUE(SameBits(WithPadding(got, lengths, 0), got)) << "padding's gradient is not zero";
    EXPECT_TRUE(SameBits(run(INFINITY), got));
    EXPECT_TRUE(SameBits(run(-100), got));
  }
}

// Rows without padding have the bits of a call without lengths.
TEST_P(CudaAttentionPaddingTest, LengthsOfWholeRowsChangeNothing) {
  const Case c = GetParam();
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
  const TestTensor lengths =
      Values(DType::kInt32, {c.batch},
             std::vector<double>(static_cast<size_t>(c.batch), static_cast<double>(c.sequence)));
  const DType dtype = DType::kBFloat16;
  const TestTensor qkv = NormalValues(dtype, {c.batch, c.sequence, c.Width()}, 1);
  const TestTensor dout = NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2);
  const auto forward = RunCudaOp("attention", {&qkv, given}, Libraries(), AttributesOf(c));
  const auto run = [&](const TestTensor* some) {
    return RunCudaOp("attention_backward", {&qkv, &forward[0], &forward[1], &dout, given, some},
                     Libraries(), AttributesOf(c))[0];
  };
  const TestTensor want = run(nullptr);
  if (gpu::OnHopper()) {
    EXPECT_TRUE(SameBits(run(&lengths), want));
  } else {
    EXPECT_LE(Error(run(&lengths), want), 0x1p-5);
  }
}

// One chunk of queries and several; grouped heads and not; rows that end within a tile, with a
// tile, within the first half of a block of keys, with a chunk.
INSTANTIATE_TEST_SUITE_P(
    Narrow, CudaAttentionPaddingTest,
    testing::Values(Case{64, 200, 8, 8, 64, true}, Case{64, 200, 8, 8, 64, false},
                    Case{64, 200, 8, 2, 64, true, 0.2}, Case{64, 200, 8, 2, 40, false, 0.2},
                    Case{26, 129, 20, 20, 16, false}, Case{26, 129, 20, 5, 8, true, 0.1},
                    Case{13, 1025, 8, 4, 64, true}, Case{13, 1025, 8, 4, 64, false, 0.1},
                    Case{13, 600, 8, 8, 64, true, 0.1}, Case{13, 600, 8, 8, 64, false},
                    // Chunks of half the length.
                    Case{5, 1000, 8, 2, 64, true, 0.1}, Case{6, 600, 8, 8, 64, false}));

// Several parts of the heads that share keys, equal and unequal; scratch memory that is used again
// by heads of rows of other lengths.
INSTANTIATE_TEST_SUITE_P(
    Wide, CudaAttentionPaddingTest,
    testing::Values(Case{26, 200, 4, 4, 128, true}, Case{26, 200, 4, 4, 128, false},
                    Case{64, 200, 8, 8, 96, true, 0.2}, Case{64, 200, 8, 2, 80, false, 0.2},
                    Case{52, 129, 6, 6, 128, false}, Case{100, 64, 4, 2, 128, true},
                    Case{13, 1025, 4, 1, 128, true}, Case{13, 1025, 7, 1, 128, false, 0.1},
                    Case{26, 600, 12, 2, 128, true, 0.1}, Case{13, 600, 14, 2, 72, false}));

// Without dropout, whose draws depend on the sequence.
TEST(CudaAttentionPadding, GivesTheBitsOfRowsThatEndThere) {
  PLIMSOLL_NEEDS_CUDA
  if (!gpu::OnHopper()) GTEST_SKIP() << "needs a Hopper GPU";
  struct Cut {
    Case c;
    int64_t length;
  };
  // Sequences of both lengths have the same parts of the heads that share keys.
  for (const auto& [c, length] : {Cut{{64, 300, 12, 4, 64, true}, 193},    //
                                  Cut{{64, 300, 12, 12, 40, false}, 193},  //
                                  Cut{{64, 300, 12, 12, 64, false}, 130},  //
                                  Cut{{8, 1025, 16, 2, 64, true}, 700},    //
                                  Cut{{8, 1025, 16, 16, 64, false}, 640},  //
                                  Cut{{32, 300, 6, 2, 128, true}, 193},    //
                                  Cut{{32, 300, 6, 6, 96, false}, 130},    //
                                  Cut{{8, 1024, 12, 2, 128, true}, 963},   //
                                  Cut{{8, 1024, 12, 2, 128, false}, 963}}) {
    Case cut = c;
    cut.sequence = length;
    ASSERT_TRUE(InOnePass(c) && InOnePass(cut));
    SCOPED_TRACE(testing::Message() << c << ", length " << length);
    const DType dtype = DType::kBFloat16;
    const TestTensor qkv = NormalValues(dtype, {c.batch, length, c.Width()}, 1);
    const TestTensor dout = NormalValues(dtype, {c.batch, length, c.heads * c.head}, 2);
    const auto forward = RunCudaOp("attention", {&qkv, nullptr}, Libraries(), AttributesOf(cut));
    const TestTensor want =
        RunCudaOp("attention_backward", {&qkv, &forward[0], &forward[1], &dout, nullptr},
                  Libraries(), AttributesOf(cut))[0];
    // [batch, length, columns] to [batch, sequence, columns] and back.
    const auto longer = [&](const TestTensor& x, double padding) {
      const int64_t columns = x.type().shape.dim(2);
      TestTensor to({dtype, {c.batch, c.sequence, columns}});
      for (int64_t i = 0; i < to.size(); ++i) {
        const int64_t token = i / columns % c.sequence, row = i / columns / c.sequence;
        to.set(i, token < length ? x.at((row * length + token) * columns + i % columns) : padding);
      }
      return to;
    };
    const TestTensor long_qkv = longer(qkv, NAN), long_dout = longer(dout, NAN);
    const TestTensor long_out = longer(forward[0], 0);
    TestTensor lse({DType::kFloat32, {c.batch, c.heads, c.sequence}});
    for (int64_t i = 0; i < lse.size(); ++i) {
      const int64_t token = i % c.sequence, row = i / c.sequence;
      lse.set(i, token < length ? forward[1].at(row * length + token) : 0);
    }
    const TestTensor lengths =
        Values(DType::kInt32, {c.batch},
               std::vector<double>(static_cast<size_t>(c.batch), static_cast<double>(length)));
    const TestTensor got =
        RunCudaOp("attention_backward", {&long_qkv, &long_out, &lse, &long_dout, nullptr, &lengths},
                  Libraries(), AttributesOf(c))[0];
    EXPECT_TRUE(SameBits(got, longer(want, 0)));
  }
}

}  // namespace
}  // namespace plimsoll::ops
