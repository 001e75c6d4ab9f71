// Attention on the GPU, by cuDNN and by our own kernels, compared with the CPU's, at shapes too
// large for the registry's examples; its dropout draws; generation's attention over a long cache.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_recording.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/rank_of_several.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

struct Case {
  int64_t batch, sequence, heads, kv_heads, head;
  bool causal;
  double dropout = 0;
  // Of how many ranks that share the heads, a middle one has these.
  int ranks = 1;
  double softcap = 0;  // 0: none

  RankOfSeveral Among() const { return {ranks / 2, ranks}; }
};

Attributes AttributesOf(const Case& c, bool tf32 = false) {
  Attributes attributes{{"heads", c.heads},     {"kv_heads", c.kv_heads}, {"causal", c.causal},
                        {"dropout", c.dropout}, {"key", int64_t{7}},      {"tf32", tf32}};
  if (c.ranks > 1) attributes.Set("axis", std::string("tensor"));
  if (c.softcap > 0) attributes.Set("softcap", c.softcap);
  return attributes;
}

gpu::Libraries& Libraries() {
  static auto* libraries = new gpu::Libraries;  // never destroyed: the driver may go first
  return *libraries;
}

TestTensor Qkv(const Case& c, DType dtype) {
  return NormalValues(dtype, {c.batch, c.sequence, (c.heads + 2 * c.kv_heads) * c.head}, 1);
}

TestTensor Dout(const Case& c, DType dtype) {
  return NormalValues(dtype, {c.batch, c.sequence, c.heads * c.head}, 2);
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

// Errors of out, lse and dqkv; with PLIMSOLL_SHOW_ERRORS set they are printed.
void ExpectAgreesWithCpu(const Case& c, DType dtype, double out_tolerance, double lse_tolerance,
                         double dqkv_tolerance, bool tf32 = false) {
  const TestTensor qkv = Qkv(c, dtype), dout = Dout(c, dtype);
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
  const Attributes attributes = AttributesOf(c, tf32);
  RankOfSeveral among = c.Among();
  const auto on_cpu = [&](const std::string& op, const std::vector<const TestTensor*>& inputs) {
    return RunOp(op, inputs, attributes, 2, {}, among.AlongTensor());
  };
  const auto on_gpu = [&](const std::string& op, const std::vector<const TestTensor*>& inputs) {
    return RunCudaOp(op, inputs, Libraries(), attributes, {}, among.AlongTensor());
  };
  const auto cpu = on_cpu("attention", {&qkv, given});
  const auto gpu = on_gpu("attention", {&qkv, given});
  const std::vector<const TestTensor*> backward = {&qkv, &cpu[0], &cpu[1], &dout, given};
  const auto cpu_backward = on_cpu("attention_backward", backward);
  const auto gpu_backward = on_gpu("attention_backward", backward);
  const double out = Error(gpu[0], cpu[0]), lse = Error(gpu[1], cpu[1]),
               dqkv = Error(gpu_backward[0], cpu_backward[0]);
  if (std::getenv("PLIMSOLL_SHOW_ERRORS") != nullptr) {
    std::printf(
        "%-4s B%ld T%ld H%ld G%ld hd%ld causal %d dropout %g: out %.2g lse %.2g dqkv %.2g\n",
        std::string(graph::Name(dtype)).c_str(), c.batch, c.sequence, c.heads, c.kv_heads, c.head,
        c.causal, c.dropout, out, lse, dqkv);
  }
  EXPECT_LE(out, out_tolerance);
  EXPECT_LE(lse, lse_tolerance);
  EXPECT_LE(dqkv, dqkv_tolerance);
}

class CudaAttentionTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }
};

TEST_P(CudaAttentionTest, AgreesWithTheCpuInFloat32) {
  ExpectAgreesWithCpu(GetParam(), DType::kFloat32, 2e-5, 2e-5, 1e-4);
}

// TF32 has as many bits of fraction as fp16.
TEST_P(CudaAttentionTest, AgreesWithTheCpuInTf32) {
  ExpectAgreesWithCpu(GetParam(), DType::kFloat32, 3 * 0x1p-11, 2e-3, 8 * 0x1p-11, /*tf32=*/true);
}

// cuDNN rounds the attention weights to 16 bits before it multiplies them with the values.
TEST_P(CudaAttentionTest, AgreesWithTheCpuIn16Bits) {
  ExpectAgreesWithCpu(GetParam(), DType::kBFloat16, 3 * 0x1p-8, 1e-4, 8 * 0x1p-8);
  ExpectAgreesWithCpu(GetParam(), DType::kFloat16, 3 * 0x1p-11, 1e-4, 8 * 0x1p-11);
}

TEST_P(CudaAttentionTest, AGraphGivesTheSameBitsEachTime) {
  const Case c = GetParam();
  const std::pair<DType, bool> types[] = {
      {DType::kFloat32, false}, {DType::kFloat32, true}, {DType::kBFloat16, false}};
  for (const auto& [dtype, tf32] : types) {
    SCOPED_TRACE(std::string(graph::Name(dtype)) + (tf32 ? " in tf32" : ""));
    const CudaTensor qkv(Qkv(c, dtype)), dout(Dout(c, dtype));
    const CudaTensor rng(Values(DType::kInt32, {2}, {3, 4}));
    const CudaTensor* const given = c.dropout > 0 ? &rng : nullptr;
    const CudaOpRunner forward("attention", {&qkv, given}, AttributesOf(c, tf32));
    const CudaOpRunner backward("attention_backward",
                                {&qkv, &forward.output(0), &forward.output(1), &dout, given},
                                AttributesOf(c, tf32));
    forward.Run(Libraries());
    backward.Run(Libraries());
    std::vector<TestTensor> first;
    for (const CudaTensor& output : {forward.output(0), forward.output(1), backward.output(0)}) {
      first.push_back(output.Download());
    }
    const runtime::CudaStream stream;
    const auto enqueue = [&] {
      forward.Enqueue(Libraries(), stream.get());
      backward.Enqueue(Libraries(), stream.get());
    };
    // Calls that cannot be recorded are enqueued each time, as in the executor.
    const auto recording = runtime::CudaRecording::Make(stream.get(), enqueue);
    for (int replay = 0; replay < 3; ++replay) {
      for (const CudaTensor& output : {forward.output(0), forward.output(1), backward.output(0)}) {
        gpu::Check(cudaMemset(output.data(), 0xFF, output.type().bytes()), "cudaMemset");
      }
      gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      recording ? recording->Launch(stream.get()) : enqueue();
      gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
      EXPECT_TRUE(SameBits(forward.output(0).Download(), first[0]));
      EXPECT_TRUE(SameBits(forward.output(1).Download(), first[1]));
      EXPECT_TRUE(SameBits(backward.output(0).Download(), first[2]));
    }
  }
}

// Cases with dropout, and heads whose width is no multiple of 8, use our own kernels in all types;
// on Hopper cuDNN runs only the forward pass.
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttentionTest,
    testing::Values(
        Case{3, 1, 4, 2, 64, true},         // one token
        Case{2, 64, 2, 2, 64, true},        // exactly a tile
        Case{2, 65, 3, 1, 64, true},        // and a rest of one
        Case{2, 300, 4, 2, 64, true},       //
        Case{1, 257, 2, 2, 64, false},      //
        Case{2, 128, 12, 12, 64, true},     //
        Case{1, 200, 6, 2, 128, true},      //
        Case{1, 130, 2, 1, 128, false},     //
        Case{2, 100, 2, 2, 24, true},       //
        Case{1, 140, 2, 1, 80, true},       // two pieces of a head
        Case{1, 96, 2, 1, 256, true},       //
        Case{5, 70, 4, 2, 136, true},       // in parts where cuDNN's
        Case{1, 70, 2, 2, 300, false},      // no packs in 16 bits
        Case{1, 97, 4, 2, 21, true},        // no packs at all
        Case{2, 130, 4, 2, 64, true, 0.2},  //
        Case{1, 99, 2, 1, 128, false, 0.5}, Case{1, 65, 1, 1, 90, true, 1e-9},
        Case{2, 300, 4, 2, 24, false, 0.1}, Case{1, 260, 2, 1, 72, true, 0.1},
        Case{1, 140, 4, 2, 136, false, 0.3}, Case{2, 200, 2, 2, 192, true},
        Case{1, 150, 2, 1, 256, true, 0.1}, Case{3, 1, 4, 2, 136, true, 0.2},
        Case{2, 64, 2, 2, 192, false, 0.1},  // exactly a tile
        Case{2, 65, 4, 1, 192, true, 0.3},   // and a rest of one, in a group of four
        Case{1, 193, 4, 2, 200, true, 0.1}, Case{1, 260, 2, 2, 256, false, 0.3},
        // Heads that ranks share, of every kernel with dropout.
        Case{2, 130, 4, 2, 64, true, 0.2, 4}, Case{3, 99, 2, 1, 128, false, 0.5, 2},
        Case{2, 65, 1, 1, 90, true, 0.3, 3}, Case{2, 150, 2, 1, 256, true, 0.1, 2},
        Case{2, 140, 4, 2, 136, false, 0.3, 4}, Case{2, 97, 4, 2, 21, true, 0.2, 2},
        // Scores with a soft cap.
        Case{2, 65, 3, 1, 64, true, 0, 1, 2.0}, Case{1, 257, 2, 2, 64, false, 0.2, 1, 1.5},
        Case{1, 200, 6, 2, 128, true, 0, 1, 1.5}, Case{1, 130, 2, 1, 120, false, 0.3, 1, 2.0},
        Case{2, 200, 4, 2, 256, true, 0, 1, 2.0}, Case{1, 150, 2, 1, 192, true, 0.1, 1, 1.0},
        Case{1, 97, 4, 2, 21, true, 0, 1, 1.5}, Case{1, 70, 2, 2, 300, false, 0, 1, 1.5}));

TestTensor Convert(const TestTensor& from, DType dtype) {
  TestTensor to({dtype, from.type().shape});
  for (int64_t i = 0; i < from.size(); ++i) to.set(i, from.at(i));
  return to;
}

class CudaAttentionOnePassTest : public testing::TestWithParam<Case> {};

// Enough heads for the gradients in one pass on Hopper: too many for the CPU, so the reference are
// our own float32 kernels.
TEST_P(CudaAttentionOnePassTest, AgreesWithFloat32) {
  PLIMSOLL_NEEDS_CUDA
  const Case c = GetParam();
  const Attributes attributes = AttributesOf(c);
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
  RankOfSeveral among = c.Among();
  const auto run_op = [&](const std::string& op, const std::vector<const TestTensor*>& inputs) {
    return RunCudaOp(op, inputs, Libraries(), attributes, {}, among.AlongTensor());
  };
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const TestTensor qkv = Qkv(c, dtype), dout = Dout(c, dtype);
    const TestTensor qkv32 = Convert(qkv, DType::kFloat32), dout32 = Convert(dout, DType::kFloat32);
    const auto forward = run_op("attention", {&qkv32, given});
    const TestTensor out = Convert(forward[0], dtype);
    const auto want =
        run_op("attention_backward", {&qkv32, &forward[0], &forward[1], &dout32, given});
    const auto run = [&] {
      return run_op("attention_backward", {&qkv, &out, &forward[1], &dout, given})[0];
    };
    const TestTensor got = run();
    const double error = Error(Convert(got, DType::kFloat32), want[0]);
    const double unit = dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;
    if (std::getenv("PLIMSOLL_SHOW_ERRORS") != nullptr) std::printf("dqkv %.2g\n", error);
    EXPECT_LE(error, 8 * unit);
    EXPECT_TRUE(SameBits(run(), got));
    if (c.dropout == 0 && c.softcap == 0) continue;
    const auto low = [&] { return run_op("attention", {&qkv, given}); };
    const auto got_forward = low();
    EXPECT_LE(Error(Convert(got_forward[0], DType::kFloat32), forward[0]), 3 * unit);
    EXPECT_LE(Error(got_forward[1], forward[1]), 1e-4);
    EXPECT_TRUE(SameBits(low()[0], got_forward[0]));
  }
}

// One chunk of queries and several, of which the last is short; chunks of half the length; grouped
// heads; narrow heads; tiles that end with the keys or within them; units that wait for others in
// all orders.
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttentionOnePassTest,
    testing::Values(Case{64, 300, 12, 4, 16, true},  //
                    Case{64, 300, 12, 4, 64, true, 0.1}, Case{24, 513, 8, 4, 40, false, 0.3},
                    Case{4, 1025, 16, 2, 64, true, 0.1}, Case{64, 193, 12, 12, 8, false},  //
                    Case{64, 300, 12, 4, 64, true, 0.1, 4},                                //
                    Case{48, 512, 16, 4, 8, true},                                         //
                    Case{200, 1, 4, 2, 64, true},                                          //
                    Case{24, 513, 4, 4, 40, true},                                         //
                    Case{4, 1000, 24, 6, 64, true},                                        //
                    Case{4, 1024, 24, 24, 16, true},                                       //
                    Case{4, 1025, 16, 2, 64, false},                                       //
                    Case{1, 1100, 64, 64, 24, false}, Case{2, 2048, 24, 8, 40, true},
                    Case{4, 1000, 24, 6, 64, true, 0, 1, 2.0},
                    Case{64, 300, 12, 4, 64, true, 0.1, 1, 1.5},
                    // Few units: chunks of half the length.
                    Case{1, 2048, 32, 8, 64, true}, Case{4, 1025, 8, 2, 64, true, 0.1},
                    Case{3, 700, 20, 4, 40, false}, Case{1, 1100, 24, 24, 24, true, 0.2, 4},
                    Case{8, 257, 8, 8, 16, false, 0.1}));

// Wide heads: one part of the heads that share keys and several, equal and unequal; tiles that end
// with the keys or within them; scratch memory that is used again.
INSTANTIATE_TEST_SUITE_P(
    WideShapes, CudaAttentionOnePassTest,
    testing::Values(Case{32, 300, 6, 2, 128, true},  //
                    Case{12, 257, 4, 4, 96, false, 0.1}, Case{8, 1024, 12, 2, 128, true, 0.1},
                    Case{8, 1024, 12, 2, 128, true, 0.1, 4}, Case{100, 1, 2, 1, 128, true},  //
                    Case{40, 65, 9, 3, 80, true},                                            //
                    Case{12, 257, 4, 4, 96, false},                                          //
                    Case{4, 1000, 14, 2, 128, true},                                         //
                    Case{8, 1024, 12, 2, 128, true},                                         //
                    Case{3, 1025, 16, 4, 128, false},                                        //
                    Case{24, 128, 32, 4, 128, false},                                        //
                    Case{1, 4100, 6, 2, 120, true},                                          //
                    Case{2, 2048, 16, 16, 72, true}, Case{8, 1024, 12, 2, 128, true, 0, 1, 2.0},
                    Case{12, 257, 4, 4, 96, false, 0.1, 1, 1.5}));

// The widest heads: more units than multiprocessors, so that thread blocks take
// several; groups of heads; rings that go round many times.
INSTANTIATE_TEST_SUITE_P(
    WidestShapes, CudaAttentionOnePassTest,
    testing::Values(Case{12, 130, 12, 6, 192, true, 0.2}, Case{12, 130, 12, 6, 192, true, 0.2, 2},
                    Case{2, 1100, 4, 1, 256, false, 0.1, 4}, Case{12, 257, 6, 3, 256, false, 0.2},
                    Case{2, 2100, 4, 1, 256, true, 0.1}, Case{8, 1000, 4, 4, 136, true, 0.1},
                    Case{12, 130, 12, 6, 192, false},  //
                    Case{12, 257, 6, 3, 256, true},    //
                    Case{2, 2100, 4, 1, 200, false}, Case{2, 2100, 4, 1, 256, true, 0, 1, 2.0},
                    Case{12, 130, 12, 6, 192, false, 0.2, 1, 1.5}));

// Sequences of all lengths, of which the shortest has none, with and without dropout. What padding
// holds is not read: it is NaN here.
TEST(CudaAttention, LeavesPaddingOut) {
  PLIMSOLL_NEEDS_CUDA
  for (const Case& c : {Case{4, 200, 4, 2, 64, true, 0.2}, Case{4, 130, 2, 2, 40, false, 0.2},
                        Case{4, 300, 2, 1, 128, false, 0.2}, Case{4, 200, 2, 1, 128, true},
                        Case{4, 150, 2, 1, 200, true, 0.2}, Case{4, 150, 4, 2, 136, false, 0.2},
                        Case{4, 300, 2, 1, 256, true, 0.2}, Case{4, 200, 2, 2, 256, false, 0.2},
                        Case{4, 200, 2, 1, 192, false}, Case{4, 140, 4, 2, 256, true}}) {
    const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
    const TestTensor* const given = c.dropout > 0 ? &rng : nullptr;
    const double all = static_cast<double>(c.sequence);
    const TestTensor lengths = Values(DType::kInt32, {4}, {all, 65, 0, 1});
    for (const auto& [dtype, tf32] :
         {std::pair{DType::kBFloat16, false}, std::pair{DType::kFloat16, false},
          std::pair{DType::kFloat32, true}}) {
      SCOPED_TRACE(testing::Message() << graph::Name(dtype) << " width " << c.head);
      const double unit = dtype == DType::kBFloat16  ? 0x1p-8
                          : dtype == DType::kFloat16 ? 0x1p-11
                                                     : 0x1p-10;
      TestTensor qkv = Qkv(c, dtype), dout = Dout(c, dtype);
      const auto spoil = [&](TestTensor& x) {
        const int64_t row = x.size() / (c.batch * c.sequence);
        for (int64_t i = 0; i < x.size(); ++i) {
          const int64_t b = i / row / c.sequence, token = i / row % c.sequence;
          if (token >= static_cast<int64_t>(lengths.at(b))) x.set(i, NAN);
        }
      };
      spoil(qkv);
      spoil(dout);
      const auto cpu = RunOp("attention", {&qkv, given, &lengths}, AttributesOf(c));
      const auto gpu =
          RunCudaOp("attention", {&qkv, given, &lengths}, Libraries(), AttributesOf(c, tf32));
      EXPECT_LE(Error(gpu[0], cpu[0]), 3 * unit);
      EXPECT_LE(Error(gpu[1], cpu[1]), dtype == DType::kFloat32 ? 2 * unit : 1e-4);
      const std::vector<const TestTensor*> inputs = {&qkv,  &cpu[0], &cpu[1],
                                                     &dout, given,   &lengths};
      const auto want = RunOp("attention_backward", inputs, AttributesOf(c));
      const auto got = RunCudaOp("attention_backward", inputs, Libraries(), AttributesOf(c, tf32));
      EXPECT_LE(Error(got[0], want[0]), 8 * unit);
    }
  }
}

// With one-hot values the attention weights are the output itself.
TEST(CudaAttention, DropsTheElementsThatTheCpuDrops) {
  PLIMSOLL_NEEDS_CUDA
  const Case c{2, 64, 3, 1, 64, false, 0.3};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    TestTensor qkv = Qkv(c, dtype);
    for (int64_t i = 0; i < qkv.size(); ++i) {
      const int64_t row = i / (5 * 64), column = i % (5 * 64);
      if (column >= 4 * 64) qkv.set(i, row % c.sequence == column % 64 ? 1 : 0);
    }
    const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
    const auto cpu = RunOp("attention", {&qkv, &rng}, AttributesOf(c));
    const auto gpu = RunCudaOp("attention", {&qkv, &rng}, Libraries(), AttributesOf(c));
    int64_t dropped = 0;
    for (int64_t i = 0; i < cpu[0].size(); ++i) {
      ASSERT_EQ(gpu[0].at(i) == 0, cpu[0].at(i) == 0) << i;
      dropped += cpu[0].at(i) == 0;
    }
    EXPECT_NEAR(static_cast<double>(dropped) / cpu[0].size(), c.dropout, 0.02);
  }
}

TEST(CudaAttention, LeavingOutLseGivesTheSameOutput) {
  PLIMSOLL_NEEDS_CUDA
  const Case c{2, 200, 4, 2, 64, true};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const TestTensor qkv = Qkv(c, dtype);
    const auto with = RunCudaOp("attention", {&qkv, nullptr}, Libraries(), AttributesOf(c));
    const auto without =
        RunCudaOp("attention", {&qkv, nullptr}, Libraries(), AttributesOf(c), {true, false});
    EXPECT_TRUE(SameBits(with[0], without[0])) << graph::Name(dtype);
  }
}

TEST(CudaAttention, StaysFiniteForLargeScores) {
  PLIMSOLL_NEEDS_CUDA
  const Case c{1, 100, 1, 1, 16, true};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const TestTensor qkv = NormalValues(dtype, {1, 100, 3 * 16}, 5, 60);
    const auto got = RunCudaOp("attention", {&qkv, nullptr}, Libraries(), AttributesOf(c));
    for (int64_t i = 0; i < got[0].size(); ++i) ASSERT_TRUE(std::isfinite(got[0].at(i)));
  }
}

TEST(CudaAttention, PassesNanOn) {
  PLIMSOLL_NEEDS_CUDA
  const Case c{1, 40, 1, 1, 16, true};
  const std::pair<DType, bool> types[] = {
      {DType::kFloat32, false}, {DType::kFloat32, true}, {DType::kBFloat16, false}};
  for (const auto& [dtype, tf32] : types) {
    TestTensor qkv = NormalValues(dtype, {1, 40, 3 * 16}, 5);
    qkv.set(20 * 48 + 16 + 3, NAN);  // in the key of token 20
    const auto got = RunCudaOp("attention", {&qkv, nullptr}, Libraries(), AttributesOf(c, tf32));
    for (int64_t i = 0; i < 20 * 16; ++i) ASSERT_FALSE(std::isnan(got[0].at(i))) << i;
    for (int64_t i = 20 * 16; i < got[0].size(); ++i) ASSERT_TRUE(std::isnan(got[0].at(i))) << i;
  }
}

struct CachedCase {
  int64_t rows, window, heads, kv_heads, head, capacity, position;
  int64_t seen = 0;  // keys that a token sees at most; 0: all
};

class CudaAttentionCachedTest : public testing::TestWithParam<CachedCase> {};

TEST_P(CudaAttentionCachedTest, AgreesWithTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  const CachedCase c = GetParam();
  Attributes attributes{{"heads", c.heads}, {"kv_heads", c.kv_heads}};
  if (c.seen != 0) attributes.Set("window", c.seen);
  const TestTensor position = Values(DType::kInt32, {1}, {static_cast<double>(c.position)});
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(graph::Name(dtype));
    const double tolerance = dtype == DType::kBFloat16  ? 3 * 0x1p-8
                             : dtype == DType::kFloat16 ? 3 * 0x1p-11
                                                        : 2e-5;
    const TestTensor qkv =
        NormalValues(dtype, {c.rows, c.window, (c.heads + 2 * c.kv_heads) * c.head}, 1);
    TestTensor keys = NormalValues(dtype, {c.rows, c.kv_heads, c.capacity, c.head}, 2);
    TestTensor values = NormalValues(dtype, {c.rows, c.kv_heads, c.capacity, c.head}, 3);
    // Positions beyond the new tokens are not read.
    for (int64_t i = 0; i < keys.size(); ++i) {
      if (i / c.head % c.capacity < c.position + c.window) continue;
      keys.set(i, NAN);
      values.set(i, NAN);
    }
    const auto cpu = RunOp("attention_cached", {&qkv, &keys, &values, &position}, attributes);
    const auto gpu =
        RunCudaOp("attention_cached", {&qkv, &keys, &values, &position}, Libraries(), attributes);
    EXPECT_LE(Error(gpu[0], cpu[0]), tolerance);
    EXPECT_TRUE(SameBits(gpu[1], cpu[1]));
    EXPECT_TRUE(SameBits(gpu[2], cpu[2]));

    const CudaTensor q(qkv), k(keys), v(values), p(position);
    CudaOpRunner in_place("attention_cached", {&q, &k, &v, &p}, attributes);
    in_place.Share(1, k);
    in_place.Share(2, v);
    in_place.Run(Libraries());
    EXPECT_TRUE(SameBits(in_place.output(0).Download(), gpu[0]));
    EXPECT_TRUE(SameBits(k.Download(), cpu[1]));
    EXPECT_TRUE(SameBits(v.Download(), cpu[2]));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaAttentionCachedTest,
    testing::Values(
        CachedCase{2, 1, 4, 4, 64, 100, 0}, CachedCase{2, 1, 12, 12, 64, 1024, 700},
        CachedCase{3, 1, 14, 2, 128, 300, 299}, CachedCase{1, 5, 6, 2, 40, 520, 254},
        CachedCase{1, 16, 2, 1, 21, 256, 240}, CachedCase{2, 17, 4, 2, 64, 300, 100},
        CachedCase{1, 130, 4, 4, 64, 400, 0}, CachedCase{1, 70, 4, 2, 128, 200, 130},
        CachedCase{1, 1, 2, 1, 300, 600, 512},
        // Windows within a chunk of keys, of a part of two, longer than one, of a token;
        // with many new tokens.
        CachedCase{2, 1, 4, 2, 64, 700, 600, 50}, CachedCase{2, 1, 4, 2, 64, 700, 530, 100},
        CachedCase{1, 5, 4, 4, 128, 900, 800, 300}, CachedCase{1, 3, 2, 1, 40, 600, 511, 1},
        CachedCase{1, 16, 2, 2, 64, 600, 500, 256}, CachedCase{2, 130, 4, 2, 64, 500, 300, 70},
        CachedCase{1, 40, 2, 1, 128, 300, 0, 20}));

}  // namespace
}  // namespace plimsoll::ops
