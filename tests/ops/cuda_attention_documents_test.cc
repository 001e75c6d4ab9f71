// Documents apart and windows on the GPU (ops/attention/attention.h), by every kernel: results
// agree with the CPU's, and no bit of a document depends on the others of its row.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

struct Case {
  int64_t heads, kv_heads, head;
  // Tokens of the documents of the first row. Each row after it has them in another order. Empty:
  // one document a row.
  std::vector<int64_t> documents;
  int64_t rows = 2;
  int64_t window = 0;  // 0: none
  double dropout = 0;
  int64_t sequence = 0;  // 0: that of the documents
  double softcap = 0;    // 0: none

  int64_t Sequence() const {
    return sequence != 0 ? sequence
                         : std::accumulate(documents.begin(), documents.end(), int64_t{0});
  }
  int64_t Width() const { return (heads + 2 * kv_heads) * head; }
  std::vector<int64_t> DocumentsOf(int64_t row) const {
    std::vector<int64_t> of_row = documents;
    std::rotate(of_row.begin(), of_row.begin() + row % static_cast<int64_t>(of_row.size()),
                of_row.end());
    return of_row;
  }
};

// For messages.
std::ostream& operator<<(std::ostream& out, const Case& c) {
  out << c.rows << " rows of " << c.Sequence() << ", " << c.heads << " heads, " << c.kv_heads
      << " of keys, width " << c.head << ", window " << c.window << ", dropout " << c.dropout
      << ", soft cap " << c.softcap << ", documents";
  for (const int64_t tokens : c.documents) out << " " << tokens;
  return out;
}

struct Type {
  DType dtype;
  bool tf32;
};
constexpr Type kTypes[] = {{DType::kFloat32, false},
                           {DType::kFloat32, true},
                           {DType::kBFloat16, false},
                           {DType::kFloat16, false}};

// Of roundings within a result.
double Unit(const Type& type) {
  if (type.dtype == DType::kBFloat16) return 0x1p-8;
  if (type.dtype == DType::kFloat16) return 0x1p-11;
  return type.tf32 ? 0x1p-10 : 1e-5;
}

gpu::Libraries& Libraries() {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  return *libraries;
}

Attributes AttributesOf(const Case& c, bool tf32) {
  Attributes attributes{{"heads", c.heads},     {"kv_heads", c.kv_heads}, {"causal", true},
                        {"dropout", c.dropout}, {"key", int64_t{7}},      {"tf32", tf32}};
  if (c.window != 0) attributes.Set("window", c.window);
  if (c.softcap > 0) attributes.Set("softcap", c.softcap);
  return attributes;
}

// Of all rows; empty if they have one document each.
TestTensor Positions(const Case& c) {
  if (c.documents.empty()) return TestTensor();
  std::vector<double> values;
  for (int64_t row = 0; row < c.rows; ++row) {
    for (const int64_t tokens : c.DocumentsOf(row)) {
      for (int64_t i = 0; i < tokens; ++i) values.push_back(static_cast<double>(i));
    }
  }
  return Values(DType::kInt32, {c.rows, c.Sequence()}, values);
}

// Largest |got − want| / (1 + |want|).
double Error(const TestTensor& got, const TestTensor& want) {
  EXPECT_EQ(got.size(), want.size());
  double largest = 0;
  for (int64_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got.at(i) - want.at(i)) / (1 + std::abs(want.at(i)));
    if (!(error <= largest)) largest = error;  // NaN stays
  }
  return largest;
}

// Normal numbers, which begin again after some: millions of others take seconds to draw.
TestTensor SomeValues(DType dtype, const graph::Shape& shape, int seed, double scale = 1) {
  constexpr int64_t kDrawn = 65521;
  const TestTensor drawn = NormalValues(dtype, {kDrawn}, seed, scale);
  TestTensor values({dtype, shape});
  const int64_t bytes = values.type().bytes();
  for (int64_t at = 0; at < bytes; at += drawn.type().bytes()) {
    std::memcpy(values.as<char>() + at, drawn.as<char>(),
                static_cast<size_t>(std::min(bytes - at, drawn.type().bytes())));
  }
  return values;
}

struct Operands {
  Operands(const Case& c, DType dtype)
      : qkv(SomeValues(dtype, {c.rows, c.Sequence(), c.Width()}, 1)),
        dout(SomeValues(dtype, {c.rows, c.Sequence(), c.heads * c.head}, 2)),
        rng(Values(DType::kInt32, {2}, {3, 4})),
        positions(Positions(c)),
        drops(c.dropout > 0),
        apart(!c.documents.empty()) {}

  std::vector<const TestTensor*> Forward() const {
    return {&qkv, drops ? &rng : nullptr, nullptr, apart ? &positions : nullptr};
  }
  std::vector<const TestTensor*> Backward(const TestTensor& out, const TestTensor& lse) const {
    return {&qkv, &out, &lse, &dout, drops ? &rng : nullptr, nullptr, apart ? &positions : nullptr};
  }

  TestTensor qkv, dout, rng, positions;
  bool drops, apart;
};

// The results of two runs, which have the same bits, and find their largest magnitude.
std::vector<TestTensor> RunOnGpu(const std::string& op,
                                 const std::vector<const TestTensor*>& inputs,
                                 Attributes attributes) {
  const auto first = RunCudaOp(op, inputs, Libraries(), attributes);
  attributes.Set("largest", true);
  const auto second = RunCudaOp(op, inputs, Libraries(), attributes);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(SameBits(first[i], second[i])) << op;
  ExpectLargest(second.back(), second[0]);
  return first;
}

class CudaDocumentsTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }
};

TEST_P(CudaDocumentsTest, AgreeWithTheCpu) {
  const Case& c = GetParam();
  for (const Type& type : kTypes) {
    SCOPED_TRACE(testing::Message() << graph::Name(type.dtype) << (type.tf32 ? " in tf32" : ""));
    const Operands operands(c, type.dtype);
    const auto cpu = RunOp("attention", operands.Forward(), AttributesOf(c, false));
    const auto gpu = RunOnGpu("attention", operands.Forward(), AttributesOf(c, type.tf32));
    const auto backward = operands.Backward(cpu[0], cpu[1]);
    const auto cpu_backward = RunOp("attention_backward", backward, AttributesOf(c, false));
    const auto gpu_backward = RunOnGpu("attention_backward", backward, AttributesOf(c, type.tf32));
    const double out = Error(gpu[0], cpu[0]), lse = Error(gpu[1], cpu[1]),
                 dqkv = Error(gpu_backward[0], cpu_backward[0]);
    if (std::getenv("PLIMSOLL_SHOW_ERRORS") != nullptr) {
      std::printf("%-4s%s out %.2g lse %.2g dqkv %.2g\n",
                  std::string(graph::Name(type.dtype)).c_str(), type.tf32 ? " tf32" : "", out, lse,
                  dqkv);
    }
    EXPECT_LE(out, 3 * Unit(type));
    EXPECT_LE(lse, type.tf32 ? 2e-3 : 1e-4);
    EXPECT_LE(dqkv, 10 * Unit(type));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaDocumentsTest,
    testing::Values(
        // Documents that end within tiles and with them, of a token; many tiles that are left out.
        Case{2, 1, 64, {200, 1, 55, 256, 88}}, Case{2, 1, 128, {200, 1, 55, 256, 88}},
        Case{4, 2, 64, {128, 64, 64, 256, 128}}, Case{4, 4, 128, {128, 64, 64, 256, 128}},
        Case{1, 1, 64, {1, 1, 1, 1, 61, 63, 65, 127, 129}}, Case{2, 2, 40, {300, 300}},
        Case{2, 1, 96, {70, 1, 460, 9}}, Case{2, 1, 136, {200, 1, 55, 128, 16}},
        Case{2, 1, 192, {130, 64, 190}}, Case{2, 2, 256, {130, 1, 61, 200}},
        // No packs in 16 bits, none at all.
        Case{2, 1, 300, {70, 60, 1, 9}}, Case{4, 2, 21, {97, 64, 31}},
        // With dropout.
        Case{4, 2, 64, {200, 1, 55, 256, 88}, 2, 0, 0.2},
        Case{2, 1, 128, {130, 62, 328}, 2, 0, 0.2}, Case{2, 1, 192, {130, 64, 190}, 2, 0, 0.1},
        Case{2, 1, 256, {130, 61, 200}, 2, 0, 0.3}, Case{4, 2, 21, {97, 64, 31}, 2, 0, 0.2},
        // Windows of a token, shorter and longer than a tile, of whole tiles, and with documents.
        Case{2, 1, 64, {}, 2, 1, 0, 200}, Case{2, 1, 64, {}, 2, 20, 0, 520},
        Case{2, 1, 128, {}, 2, 150, 0, 520}, Case{4, 2, 64, {}, 1, 256, 0.2, 600},
        Case{2, 2, 192, {}, 1, 64, 0, 300}, Case{2, 1, 256, {}, 1, 100, 0.2, 300},
        Case{4, 2, 21, {}, 2, 50, 0, 200}, Case{2, 1, 64, {200, 1, 55, 256, 88}, 2, 70},
        Case{2, 1, 128, {200, 1, 55, 256, 88}, 2, 130}, Case{2, 1, 200, {90, 100, 130}, 2, 64},
        // With a soft cap of scores.
        Case{2, 1, 64, {200, 1, 55, 256, 88}, 2, 70, 0, 0, 1.5},
        Case{2, 1, 128, {130, 62, 328}, 2, 0, 0.2, 0, 2.0},
        Case{2, 2, 256, {130, 1, 61, 200}, 2, 100, 0, 0, 1.5}));

// Enough heads for the gradients in one pass on Hopper: too many for the CPU, so the reference are
// our own float32 kernels.
class CudaManyDocumentsTest : public CudaDocumentsTest {};

TestTensor Convert(const TestTensor& from, DType dtype) {
  TestTensor to({dtype, from.type().shape});
  for (int64_t i = 0; i < from.size(); ++i) to.set(i, from.at(i));
  return to;
}

TEST_P(CudaManyDocumentsTest, AgreeWithFloat32) {
  const Case& c = GetParam();
  const Attributes attributes = AttributesOf(c, false);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const Operands operands(c, dtype);
    Operands exact = operands;
    exact.qkv = Convert(operands.qkv, DType::kFloat32);
    exact.dout = Convert(operands.dout, DType::kFloat32);
    const auto want = RunCudaOp("attention", exact.Forward(), Libraries(), attributes);
    const auto want_backward = RunCudaOp("attention_backward", exact.Backward(want[0], want[1]),
                                         Libraries(), attributes)[0];
    const auto got = RunOnGpu("attention", operands.Forward(), attributes);
    const TestTensor out = Convert(want[0], dtype);
    const auto got_backward =
        RunOnGpu("attention_backward", operands.Backward(out, want[1]), attributes)[0];
    const double unit = Unit({dtype, false});
    EXPECT_LE(Error(got[0], want[0]), 3 * unit);
    EXPECT_LE(Error(got[1], want[1]), 1e-4);
    EXPECT_LE(Error(got_backward, want_backward), 10 * unit);
  }
}

// Rows with documents in different places, so that units of one head and of another end at
// different tiles; scratch memory that is used again; windows; grouped heads.
const auto kManyDocuments = testing::Values(
    // Narrow heads: several chunks of queries, and one.
    Case{16, 4, 64, {700, 1, 323, 512, 512}, 6}, Case{12, 12, 64, {512, 512, 512, 512}, 8},
    Case{16, 2, 40, {100, 28, 384, 1, 600}, 12, 0, 0.1}, Case{12, 4, 64, {130, 1, 169}, 64},
    Case{16, 16, 64, {}, 4, 300, 0, 2100}, Case{16, 4, 64, {900, 700, 1}, 6, 128, 0.2},
    // Chunks of half the length.
    Case{16, 4, 64, {700, 1, 323, 512, 512}, 1}, Case{8, 8, 40, {100, 28, 384, 1, 600}, 4, 0, 0.1},
    Case{8, 2, 64, {}, 2, 300, 0, 2100},
    // Wide heads: one part of the heads that share keys, and several.
    Case{12, 2, 128, {300, 1, 211, 512}, 8}, Case{32, 8, 128, {512, 512, 512, 512}, 2},
    Case{9, 3, 80, {65, 1, 190}, 24}, Case{16, 4, 128, {700, 1, 323, 1000}, 3, 0, 0.1},
    Case{14, 2, 128, {}, 4, 200, 0, 1000}, Case{6, 2, 120, {2000, 48, 1, 2051}, 2},
    Case{16, 16, 72, {900, 700, 1}, 2, 128, 0.1},
    // The widest heads: more units than multiprocessors.
    Case{12, 6, 192, {70, 60, 1, 128}, 12}, Case{4, 1, 256, {1000, 24, 1, 1075}, 2, 0, 0.1},
    Case{8, 4, 136, {}, 6, 300, 0, 900},
    // With a soft cap of scores.
    Case{16, 4, 64, {900, 700, 1}, 6, 128, 0, 0, 1.5},
    Case{12, 2, 128, {300, 1, 211, 512}, 8, 200, 0, 0, 2.0},
    Case{8, 4, 256, {1000, 24, 1, 1075}, 2, 600, 0, 0, 1.5});

INSTANTIATE_TEST_SUITE_P(Shapes, CudaManyDocumentsTest, kManyDocuments);

// Tokens [begin, end) of row b.
TestTensor TokensOf(const TestTensor& x, int64_t b, int64_t begin, int64_t end) {
  const int64_t columns = x.type().shape.dim(2);
  TestTensor part({x.type().dtype, {1, end - begin, columns}});
  const int64_t bytes = graph::ByteSize(x.type().dtype) * columns;
  std::memcpy(part.as<char>(), x.as<char>() + (b * x.type().shape.dim(1) + begin) * bytes,
              static_cast<size_t>(part.type().bytes()));
  return part;
}

// A document of the first row gets other, large numbers: it has other results, and no other
// document of any row a single other bit.
void ExpectDocumentsApart(const Case& c, const std::vector<Type>& types) {
  if (c.documents.size() < 2) GTEST_SKIP() << "one document a row";
  const Attributes rotation{
      {"heads", c.heads}, {"kv_heads", c.kv_heads}, {"theta", 100.0}, {"inverse", false}};
  Attributes inverse = rotation;
  inverse.Set("inverse", true);
  for (const Type& type : types) {
    SCOPED_TRACE(testing::Message() << graph::Name(type.dtype) << (type.tf32 ? " in tf32" : ""));
    Operands operands(c, type.dtype);
    const bool turns = c.head % 2 == 0;
    const auto turn = [&](const TestTensor& x, const Attributes& attributes) {
      if (!turns) return x;
      return RunCudaOp("rotary", {&x, nullptr, &operands.positions}, Libraries(), attributes)[0];
    };
    const auto run = [&] {
      Operands turned = operands;
      turned.qkv = turn(operands.qkv, rotation);
      const Attributes attributes = AttributesOf(c, type.tf32);
      const auto out = RunCudaOp("attention", turned.Forward(), Libraries(), attributes);
      const auto dqkv = RunCudaOp("attention_backward", turned.Backward(out[0], out[1]),
                                  Libraries(), attributes)[0];
      return std::pair{out[0], turn(dqkv, inverse)};
    };
    const auto before = run();
    constexpr size_t kChanged = 1;
    const std::vector<int64_t> documents = c.DocumentsOf(0);
    const int64_t begin = documents[0], end = begin + documents[kChanged];
    const TestTensor other = SomeValues(type.dtype, operands.qkv.type().shape, 3, 30);
    for (int64_t i = begin * c.Width(); i < end * c.Width(); ++i) operands.qkv.set(i, other.at(i));
    const int64_t columns = c.heads * c.head;
    for (int64_t i = begin * columns; i < end * columns; ++i) operands.dout.set(i, other.at(i));
    const auto after = run();
    for (int64_t b = 0; b < c.rows; ++b) {
      int64_t at = 0;
      for (size_t d = 0; d < documents.size(); ++d) {
        const int64_t tokens = c.DocumentsOf(b)[d];
        const auto same = [&](const TestTensor& x, const TestTensor& y) {
          return SameBits(TokensOf(x, b, at, at + tokens), TokensOf(y, b, at, at + tokens));
        };
        const bool changed = b == 0 && d == kChanged;
        EXPECT_EQ(same(before.first, after.first), !changed) << "row " << b << " document " << d;
        EXPECT_EQ(same(before.second, after.second), !changed) << "row " << b << " document " << d;
        at += tokens;
      }
    }
  }
}

TEST_P(CudaDocumentsTest, NoBitOfADocumentDependsOnTheOthers) {
  ExpectDocumentsApart(GetParam(), {std::begin(kTypes), std::end(kTypes)});
}
TEST_P(CudaManyDocumentsTest, NoBitOfADocumentDependsOnTheOthers) {
  ExpectDocumentsApart(GetParam(), {{DType::kBFloat16, false}, {DType::kFloat16, false}});
}

// With dropout our own kernels run with and without positions: the same bits.
TEST(CudaDocuments, OneDocumentARowIsNoChange) {
  PLIMSOLL_NEEDS_CUDA
  for (const auto& [rows, heads, kv_heads, head, sequence] :
       {std::array<int64_t, 5>{2, 4, 2, 64, 330},
        {6, 16, 4, 64, 1300},
        {2, 4, 2, 128, 330},
        {4, 16, 4, 128, 1000},
        {2, 2, 1, 192, 330},
        {2, 2, 2, 256, 200},
        {2, 4, 2, 21, 150}}) {
    Case c{heads, kv_heads, head, {}, rows, 0, 0.25, sequence};
    Case apart = c;
    apart.documents = {sequence};
    Case window = c;
    window.window = sequence - 1;
    for (const Type& type : kTypes) {
      // Many heads take other kernels in 16 bits alone.
      if (heads * rows > 60 && type.dtype == DType::kFloat32) continue;
      SCOPED_TRACE(testing::Message() << c << ": " << graph::Name(type.dtype));
      const auto run = [&](const Case& one) {
        const Operands operands(one, type.dtype);
        const Attributes attributes = AttributesOf(one, type.tf32);
        auto results = RunCudaOp("attention", operands.Forward(), Libraries(), attributes);
        results.push_back(RunCudaOp("attention_backward", operands.Backward(results[0], results[1]),
                                    Libraries(), attributes)[0]);
        return results;
      };
      const auto want = run(c), got = run(apart), shorter = run(window);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(SameBits(got[i], want[i])) << i;
      EXPECT_FALSE(SameBits(shorter[0], want[0]));
    }
  }
}

// Rows that end early as well as a window. What padding holds is not read: it is NaN here.
TEST(CudaWindow, LeavesPaddingOut) {
  PLIMSOLL_NEEDS_CUDA
  for (const Case& c : {Case{4, 2, 64, {}, 4, 30, 0.2, 200}, Case{2, 1, 128, {}, 4, 70, 0, 300},
                        Case{2, 1, 200, {}, 4, 30, 0.2, 150}, Case{2, 1, 256, {}, 4, 100, 0, 200},
                        Case{2, 1, 21, {}, 4, 20, 0, 150},
                        // Enough heads for one pass, which has no variant for both.
                        Case{24, 6, 64, {}, 4, 70, 0, 600}, Case{12, 12, 128, {}, 4, 70, 0, 300}}) {
    const TestTensor lengths =
        Values(DType::kInt32, {4}, {static_cast<double>(c.sequence), 65, 0, 1});
    for (const Type& type : kTypes) {
      SCOPED_TRACE(testing::Message() << c << ": " << graph::Name(type.dtype));
      Operands operands(c, type.dtype);
      for (TestTensor* x : {&operands.qkv, &operands.dout}) {
        const int64_t columns = x->type().shape.dim(2);
        for (int64_t i = 0; i < x->size(); ++i) {
          const int64_t token = i / columns;
          const auto length = static_cast<int64_t>(lengths.at(token / c.sequence));
          if (token % c.sequence >= length) x->set(i, NAN);
        }
      }
      auto forward = operands.Forward();
      forward[2] = &lengths;
      const auto cpu = RunOp("attention", forward, AttributesOf(c, false));
      const auto gpu = RunCudaOp("attention", forward, Libraries(), AttributesOf(c, type.tf32));
      EXPECT_LE(Error(gpu[0], cpu[0]), 3 * Unit(type));
      EXPECT_LE(Error(gpu[1], cpu[1]), type.tf32 ? 2e-3 : 1e-4);
      auto backward = operands.Backward(cpu[0], cpu[1]);
      backward[5] = &lengths;
      const auto want = RunOp("attention_backward", backward, AttributesOf(c, false));
      const auto got =
          RunCudaOp("attention_backward", backward, Libraries(), AttributesOf(c, type.tf32));
      EXPECT_LE(Error(got[0], want[0]), 10 * Unit(type));
    }
  }
}

// A token's bits depend on its position alone, not on its row or its place there.
TEST(CudaDocuments, AreRotatedAsInARowOfTheirOwn) {
  PLIMSOLL_NEEDS_CUDA
  // Heads of whole packs, of none, and of more pairs than a launch takes.
  for (const int64_t head : {64, 6, 1040}) {
    const Case c{3, 1, head, {30, 1, 65, 4}, 11};
    const Attributes attributes{
        {"heads", c.heads}, {"kv_heads", c.kv_heads}, {"theta", 100.0}, {"inverse", true}};
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(testing::Message() << graph::Name(dtype) << " width " << head);
      const Operands operands(c, dtype);
      const auto together =
          RunOnGpu("rotary", {&operands.qkv, nullptr, &operands.positions}, attributes)[0];
      for (int64_t b = 0; b < c.rows; ++b) {
        int64_t at = 0;
        for (const int64_t tokens : c.DocumentsOf(b)) {
          const TestTensor own = TokensOf(operands.qkv, b, at, at + tokens);
          const auto alone = RunCudaOp("rotary", {&own}, Libraries(), attributes)[0];
          EXPECT_TRUE(SameBits(TokensOf(together, b, at, at + tokens), alone)) << b << " " << at;
          at += tokens;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
