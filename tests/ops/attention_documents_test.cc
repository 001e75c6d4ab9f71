// Documents apart in the rows of a batch (ops/attention/attention.h): no bit of a document depends
// on the others of its row, and each is what it would be in a row of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/op.h"
#include "ops/cpu/attention_loops.h"
#include "ops/cpu/packed_gemm.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::OpRegistry;
using graph::TensorType;

constexpr int64_t kHeads = 4, kKvHeads = 2, kHead = 16;
constexpr int64_t kWidth = (kHeads + 2 * kKvHeads) * kHead, kOut = kHeads * kHead;

struct Document {
  int64_t begin, end;
};

// Those of a row, one after the other.
std::vector<Document> Documents(const std::vector<int64_t>& tokens) {
  std::vector<Document> documents;
  int64_t at = 0;
  for (const int64_t count : tokens) {
    documents.push_back({at, at + count});
    at += count;
  }
  return documents;
}

TestTensor Positions(const std::vector<Document>& documents) {
  TestTensor positions({DType::kInt32, {1, documents.back().end}});
  for (const Document& document : documents) {
    for (int64_t i = document.begin; i < document.end; ++i) {
      positions.set(i, static_cast<double>(i - document.begin));
    }
  }
  return positions;
}

Attributes AttentionAttributes(double dropout, int64_t window) {
  Attributes attributes{{"heads", kHeads},
                        {"kv_heads", kKvHeads},
                        {"causal", true},
                        {"dropout", dropout},
                        {"key", int64_t{7}}};
  if (window != 0) attributes.Set("window", window);
  return attributes;
}

Attributes RotaryAttributes(bool inverse) {
  return {{"heads", kHeads}, {"kv_heads", kKvHeads}, {"theta", 100.0}, {"inverse", inverse}};
}

struct Results {
  TestTensor out, dqkv;
};

// A rotation and the attention, forward and backward, of one row. `positions`: nullptr: one
// document.
Results AttendRow(const TestTensor& qkv, const TestTensor& dout, const TestTensor* positions,
                  const Attributes& attributes, int threads) {
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor turned =
      RunOp("rotary", {&qkv, nullptr, positions}, RotaryAttributes(false), threads)[0];
  const std::vector<TestTensor> out =
      RunOp("attention", {&turned, &rng, nullptr, positions}, attributes, threads);
  const TestTensor dturned =
      RunOp("attention_backward", {&turned, &out[0], &out[1], &dout, &rng, nullptr, positions},
            attributes, threads)[0];
  return {out[0],
          RunOp("rotary", {&dturned, nullptr, positions}, RotaryAttributes(true), threads)[0]};
}

// The tokens [begin, end) of a row.
TestTensor TokensOf(const TestTensor& x, const Document& document) {
  const int64_t columns = x.type().shape.dim(2);
  TestTensor part({x.type().dtype, {1, document.end - document.begin, columns}});
  const int64_t bytes = graph::ByteSize(x.type().dtype) * columns;
  std::memcpy(part.as<char>(), x.as<char>() + document.begin * bytes, part.type().bytes());
  return part;
}

// Calls body for each instruction set that the processor has.
template <typename Body>
void OnEachInstructionSet(const Body& body) {
  const cpu::GemmKernel before = cpu::ActiveGemmKernel();
  for (const cpu::GemmKernel kernel : {cpu::GemmKernel::kAvx2, cpu::GemmKernel::kAvx512}) {
    if (!cpu::GemmKernelSupported(kernel)) continue;
    cpu::SetGemmKernel(kernel);
    body();
  }
  cpu::SetGemmKernel(before);
}

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16};

TEST(DocumentsApart, NoBitOfADocumentDependsOnTheOthers) {
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{70, 100, 130}, {5, 3, 9}, {128, 128, 64}, {1, 200, 1, 1, 60}}) {
    const std::vector<Document> documents = Documents(tokens);
    const int64_t length = documents.back().end;
    const TestTensor positions = Positions(documents);
    for (const DType dtype : kDTypes) {
      for (const double dropout : {0.0, 0.25}) {
        OnEachInstructionSet([&] {
          const Attributes attributes = AttentionAttributes(dropout, 0);
          TestTensor qkv = NormalValues(dtype, {1, length, kWidth}, 1);
          TestTensor dout = NormalValues(dtype, {1, length, kOut}, 2);
          const Results before = AttendRow(qkv, dout, &positions, attributes, 1);
          // Another document 1, with large numbers.
          const Document& changed = documents[1];
          const TestTensor other = NormalValues(dtype, {1, length, kWidth}, 3, 30);
          for (int64_t i = changed.begin; i < changed.end; ++i) {
            for (int64_t c = 0; c < kWidth; ++c) qkv.set(i * kWidth + c, other.at(i * kWidth + c));
            for (int64_t c = 0; c < kOut; ++c) dout.set(i * kOut + c, other.at(i * kWidth + c));
          }
          const Results after = AttendRow(qkv, dout, &positions, attributes, 3);
          for (size_t d = 0; d < documents.size(); ++d) {
            SCOPED_TRACE(testing::Message() << graph::Name(dtype) << ", document " << d);
            const auto same = [&](const TestTensor& a, const TestTensor& b) {
              return SameBits(TokensOf(a, documents[d]), TokensOf(b, documents[d]));
            };
            EXPECT_EQ(same(before.out, after.out), d != 1);
            EXPECT_EQ(same(before.dqkv, after.dqkv), d != 1);
          }
        });
      }
    }
  }
}

// Sums over keys begin at the row's multiples of 64 tokens: equal bits where the document does.
TEST(DocumentsApart, EachIsWhatItIsInARowOfItsOwn) {
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{128, 256, 100}, {30, 1, 170, 99}}) {
    const std::vector<Document> documents = Documents(tokens);
    const int64_t length = documents.back().end;
    const TestTensor positions = Positions(documents);
    for (const DType dtype : kDTypes) {
      for (const int64_t window : {0, 40}) {
        OnEachInstructionSet([&] {
          const Attributes attributes = AttentionAttributes(0, window);
          const TestTensor qkv = NormalValues(dtype, {1, length, kWidth}, 1);
          const TestTensor dout = NormalValues(dtype, {1, length, kOut}, 2);
          const Results together = AttendRow(qkv, dout, &positions, attributes, 2);
          const double tolerance = dtype == DType::kFloat64   ? 1e-12
                                   : dtype == DType::kFloat32 ? 2e-5
                                                              : 0.1;
          for (const Document& document : documents) {
            SCOPED_TRACE(testing::Message() << graph::Name(dtype) << " from " << document.begin);
            const Results alone = AttendRow(TokensOf(qkv, document), TokensOf(dout, document),
                                            nullptr, attributes, 2);
            const TestTensor out = TokensOf(together.out, document);
            const TestTensor dqkv = TokensOf(together.dqkv, document);
            for (int64_t i = 0; i < out.size(); ++i) {
              ASSERT_NEAR(out.at(i), alone.out.at(i), tolerance);
            }
            for (int64_t i = 0; i < dqkv.size(); ++i) {
              ASSERT_NEAR(dqkv.at(i), alone.dqkv.at(i), 5 * tolerance);
            }
            if (document.begin % cpu::kAttentionQueries != 0) continue;
            EXPECT_TRUE(SameBits(out, alone.out));
            EXPECT_TRUE(SameBits(dqkv, alone.dqkv));
          }
        });
      }
    }
  }
}

TEST(DocumentsApart, OneDocumentARowIsNoChange) {
  constexpr int64_t kLength = 150;
  const TestTensor positions = Positions(Documents({kLength}));
  for (const DType dtype : kDTypes) {
    OnEachInstructionSet([&] {
      const Attributes attributes = AttentionAttributes(0.25, 0);
      const TestTensor qkv = NormalValues(dtype, {1, kLength, kWidth}, 1);
      const TestTensor dout = NormalValues(dtype, {1, kLength, kOut}, 2);
      const Results with = AttendRow(qkv, dout, &positions, attributes, 2);
      const Results without = AttendRow(qkv, dout, nullptr, attributes, 2);
      EXPECT_TRUE(SameBits(with.out, without.out));
      EXPECT_TRUE(SameBits(with.dqkv, without.dqkv));
    });
  }
}

TEST(Window, ThatHoldsTheRowIsNoChange) {
  constexpr int64_t kLength = 150;
  for (const DType dtype : kDTypes) {
    OnEachInstructionSet([&] {
      const TestTensor qkv = NormalValues(dtype, {1, kLength, kWidth}, 1);
      const TestTensor dout = NormalValues(dtype, {1, kLength, kOut}, 2);
      const Results without = AttendRow(qkv, dout, nullptr, AttentionAttributes(0.25, 0), 2);
      for (const int64_t window : {kLength, kLength + 1, int64_t{1} << 40}) {
        const Results with = AttendRow(qkv, dout, nullptr, AttentionAttributes(0.25, window), 2);
        EXPECT_TRUE(SameBits(with.out, without.out)) << window;
        EXPECT_TRUE(SameBits(with.dqkv, without.dqkv)) << window;
      }
      const Results shorter =
          AttendRow(qkv, dout, nullptr, AttentionAttributes(0.25, kLength - 1), 2);
      EXPECT_FALSE(SameBits(shorter.out, without.out));
    });
  }
}

TEST(DocumentsApart, EachLooksUpThePositionsOfARowOfItsOwn) {
  const std::vector<Document> documents = Documents({5, 1, 7});
  const TestTensor positions = Positions(documents);
  const TestTensor tokens = Values(DType::kInt32, {1, 13}, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9});
  for (const DType dtype : kDTypes) {
    const TestTensor words = NormalValues(dtype, {10, 24}, 1),
                     table = NormalValues(dtype, {7, 24}, 2);
    const TestTensor together =
        RunOp("embedding", {&tokens, &words, &table, nullptr, &positions})[0];
    for (const Document& document : documents) {
      TestTensor own({DType::kInt32, {1, document.end - document.begin}});
      for (int64_t i = 0; i < own.size(); ++i) own.set(i, tokens.at(document.begin + i));
      const TestTensor alone = RunOp("embedding", {&own, &words, &table})[0];
      EXPECT_TRUE(SameBits(TokensOf(together, document), alone));
    }
  }
  const TestTensor few = NormalValues(DType::kFloat32, {6, 24}, 2);
  const TestTensor words = NormalValues(DType::kFloat32, {10, 24}, 1);
  EXPECT_THROW(RunOp("embedding", {&tokens, &words, &few, nullptr, &positions}), InternalError);
}

TEST(DocumentsApart, PositionsFollowOneAnother) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 4, kWidth}, 5);
  const auto run = [&](const char* op, const std::vector<double>& of_tokens) {
    const TestTensor positions = Values(DType::kInt32, {1, 4}, of_tokens);
    if (std::string(op) == "rotary") {
      RunOp(op, {&qkv, nullptr, &positions}, RotaryAttributes(false));
    } else {
      RunOp(op, {&qkv, nullptr, nullptr, &positions}, AttentionAttributes(0, 0));
    }
  };
  EXPECT_NO_THROW(run("attention", {0, 1, 0, 1}));
  EXPECT_NO_THROW(run("rotary", {0, 3, 0, 1}));
  for (const std::vector<double>& wrong :
       {std::vector<double>{1, 2, 3, 4}, {0, 1, -1, 0}, {0, 1, 3, 4}, {0, 1, 1, 2}, {0, 1, 2, 4}}) {
    EXPECT_THROW(run("attention", wrong), InternalError);
  }
  EXPECT_THROW(run("rotary", {0, 1, 2, 4}), InternalError);
  EXPECT_THROW(run("rotary", {0, -1, 2, 3}), InternalError);
}

TEST(DocumentsApart, CallsThatMakeNoSenseAreRefused) {
  const TestTensor qkv = NormalValues(DType::kFloat32, {1, 4, kWidth}, 5);
  const TestTensor positions = Values(DType::kInt32, {1, 4}, {0, 1, 0, 1});
  const TestTensor lengths = Values(DType::kInt32, {1}, {4});
  const TestTensor first = Values(DType::kInt32, {1}, {0});
  const auto expect = [&](const std::vector<const TestTensor*>& inputs,
                          const Attributes& attributes, const char* message) {
    EXPECT_THAT(
        MessageOf<InternalError>([&] { RunOp("attention", inputs, attributes); }).value_or(""),
        testing::HasSubstr(message));
  };
  expect({&qkv, nullptr, &lengths, &positions}, AttentionAttributes(0, 0),
         "needs lengths or positions, not both");
  Attributes full = AttentionAttributes(0, 0);
  full.Set("causal", false);
  expect({&qkv, nullptr, nullptr, &positions}, full, "positions and a window need causal");
  full.Set("window", int64_t{2});
  expect({&qkv, nullptr}, full, "positions and a window need causal");
  expect({&qkv, nullptr}, AttentionAttributes(0, -1), "needs a window of 0 (none) or more");
  EXPECT_THROW(RunOp("rotary", {&qkv, &first, &positions}, RotaryAttributes(false)), InternalError);
}

// Pairs of a query and a key that it sees: 1 + 2 + 3 + 3 + 3 of 1 + 2 + 3 + 4 + 5.
TEST(Window, CostsWhatItSees) {
  const TensorType qkv{DType::kFloat32, {1, 5, kWidth}};
  const TensorType* const inputs[] = {&qkv, nullptr};
  const auto products = [&](int64_t window) {
    const Attributes attributes = AttentionAttributes(0, window);
    return graph::CostOf({OpRegistry::Get().Require("attention"), inputs, {}, attributes}).products;
  };
  EXPECT_EQ(products(3) * 15, products(0) * 12);
  EXPECT_EQ(products(5), products(0));
  EXPECT_EQ(products(50), products(0));
}

}  // namespace
}  // namespace plimsoll::ops
