// Elementwise ops on the GPU beyond the registry test: large tensors, views that begin at any
// address, more than 2^32 elements, the draws of dropout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/dropout_draws.h"
#include "base/philox.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/rank_of_several.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Shape;
using graph::TensorType;

const DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

// An op with inputs of one float type, given by their shapes.
struct Case {
  std::string op;
  std::vector<Shape> shapes;
  graph::Attributes attributes = {};
};

std::vector<Case> Cases() {
  const graph::Attributes tanh{{"approximate", std::string("tanh")}};
  const graph::Attributes exact{{"approximate", std::string("none")}};
  const Shape many{37, 1024, 3}, odd{1021, 337};
  const graph::Attributes rotary{
      {"heads", int64_t{6}}, {"kv_heads", int64_t{2}}, {"theta", 10000.0}, {"inverse", false}};
  return {{"add", {many, many}},
          {"mul", {odd, odd}},
          {"scale", {many}, {{"factor", -0.37}}},
          {"scale_by", {odd, {}}},
          {"gelu", {many}, tanh},
          {"gelu", {odd}, exact},
          {"gelu_backward", {many, many}, tanh},
          {"gelu_backward", {odd, odd}, exact},
          {"silu", {many}},
          {"silu_backward", {many, many}},
          {"relu", {many}},
          {"relu_backward", {odd, odd}},
          {"leaky_relu", {many}, {{"slope", 0.01}}},
          {"leaky_relu_backward", {odd, odd}, {{"slope", 0.3}}},
          {"sigmoid", {many}},
          {"sigmoid_backward", {odd, odd}},
          {"tanh", {many}},
          {"tanh_backward", {odd, odd}},
          {"swiglu", {{19, 13, 2 * 264}}},
          {"swiglu", {{57, 2 * 77}}},
          {"swiglu_backward", {{19, 13, 2 * 264}, {19, 13, 264}}},
          {"swiglu_backward", {{57, 2 * 77}, {57, 77}}},
          {"rotary", {{11, 67, 10 * 64}}, rotary},
          {"rotary", {{3, 5, 10 * 6}}, rotary},
          {"rotary", {{2, 3, 10 * 1040}}, rotary}};
}

std::vector<TestTensor> Inputs(const Case& c, DType dtype) {
  std::vector<TestTensor> inputs;
  // Wide enough for the tails of activations.
  for (const Shape& shape : c.shapes) {
    inputs.push_back(NormalValues(dtype, shape, static_cast<int>(inputs.size()) + 1, 2.5));
  }
  return inputs;
}

// Runs the op with every tensor `offset` bytes beyond an aligned address.
TestTensor OnGpu(const Case& c, const std::vector<TestTensor>& inputs, int64_t offset,
                 gpu::Libraries& libraries) {
  std::vector<CudaTensor> device;
  for (const TestTensor& input : inputs) device.emplace_back(input, offset);
  std::vector<const CudaTensor*> pointers;
  for (const CudaTensor& input : device) pointers.push_back(&input);
  CudaOpRunner runner(c.op, pointers, c.attributes);
  runner.Share(0, CudaTensor(runner.output(0).type(), offset));
  runner.Run(libraries);
  return runner.output(0).Download();
}

// The type's rounding error; the additional error allowed is that of float.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 2e-6 : dtype == DType::kBFloat16 ? 0x1p-7 : 0x1p-10;
}

TEST(CudaElementwise, AgreesWithTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const Case& c : Cases()) {
    for (DType dtype : kTypes) {
      const std::vector<TestTensor> inputs = Inputs(c, dtype);
      std::vector<const TestTensor*> pointers;
      for (const TestTensor& input : inputs) pointers.push_back(&input);
      const TestTensor want = RunOp(c.op, pointers, c.attributes)[0];
      const TestTensor got = OnGpu(c, inputs, 0, libraries);
      double worst = 0;
      for (int64_t i = 0; i < want.size(); ++i) {
        const double error = std::abs(got.at(i) - want.at(i)) / (1 + std::abs(want.at(i)));
        if (!(error <= worst)) worst = error;
      }
      EXPECT_LE(worst, Tolerance(dtype))
          << c.op << " " << graph::Name(dtype) << " " << c.shapes[0].ToString();
    }
  }
}

TEST(CudaElementwise, GivesTheSameBitsWhereverATensorBegins) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (const Case& c : Cases()) {
    for (DType dtype : kTypes) {
      const std::vector<TestTensor> inputs = Inputs(c, dtype);
      const TestTensor aligned = OnGpu(c, inputs, 0, libraries);
      const TestTensor shifted = OnGpu(c, inputs, graph::ByteSize(dtype), libraries);
      EXPECT_TRUE(SameBits(aligned, shifted))
          << c.op << " " << graph::Name(dtype) << " " << c.shapes[0].ToString();
    }
  }
}

// Neither recomputing a gelu instead of keeping it, nor the choice of the op that sums the gradient
// of the bias, may change a bit of training.
TEST(CudaElementwise, GivesTheSameBitsFusedAndApart) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (DType dtype : kTypes) {
    for (int64_t width : {3072, 331}) {
      SCOPED_TRACE(std::string(graph::Name(dtype)) + " " + std::to_string(width));
      const CudaTensor x(NormalValues(dtype, {1500, width}, 1, 2.5));
      const CudaTensor dy(NormalValues(dtype, {1500, width}, 2));
      const CudaTensor acc(NormalValues(DType::kFloat32, {width}, 3));
      for (const std::string approximate : {"tanh", "none"}) {
        const graph::Attributes attributes{{"approximate", approximate}};
        CudaOpRunner value("gelu", {&x}, attributes);
        CudaOpRunner gradient("gelu_backward", {&x, &dy}, attributes);
        value.Run(libraries);
        gradient.Run(libraries);
        CudaOpRunner bias("linear_dw", {&x, &gradient.output(0), nullptr, &acc}, {{"bias", true}},
                          {false, true});
        bias.Run(libraries);
        for (const std::vector<bool>& want :
             {std::vector<bool>{true, true, false}, {true, true, true}, {false, true, true}}) {
          CudaOpRunner fused("gelu_with_backward", {&x, &dy, want[2] ? &acc : nullptr}, attributes,
                             want);
          fused.Run(libraries);
          EXPECT_TRUE(!want[0] || SameBits(fused.output(0).Download(), value.output(0).Download()));
          EXPECT_TRUE(SameBits(fused.output(1).Download(), gradient.output(0).Download()));
          EXPECT_TRUE(!want[2] || SameBits(fused.output(2).Download(), bias.output(1).Download()));
        }
      }
      const CudaTensor gate_up(NormalValues(dtype, {1500, 2 * width}, 4, 2.5));
      CudaOpRunner value("swiglu", {&gate_up}, {}),
          gradient("swiglu_backward", {&gate_up, &dy}, {});
      CudaOpRunner fused("swiglu_with_backward", {&gate_up, &dy}, {});
      for (const CudaOpRunner* runner : {&value, &gradient, &fused}) runner->Run(libraries);
      EXPECT_TRUE(SameBits(fused.output(0).Download(), value.output(0).Download()));
      EXPECT_TRUE(SameBits(fused.output(1).Download(), gradient.output(0).Download()));
    }
  }
}

TEST(CudaElementwise, DropsWhatTheCpuDrops) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (DType dtype : kTypes) {
    for (int64_t n : {1, 7, 4096, 100003}) {
      const TestTensor x = NormalValues(dtype, {n}, 5);
      const TestTensor rng = Values(DType::kInt32, {2}, {11, -3});
      const graph::Attributes attributes{{"p", 0.3}, {"key", int64_t{1} << 40}};
      const TestTensor want = RunOp("dropout", {&x, &rng}, attributes)[0];
      for (int64_t offset : {int64_t{0}, graph::ByteSize(dtype)}) {
        const CudaTensor device_x(x, offset), device_rng(rng);
        CudaOpRunner runner("dropout", {&device_x, &device_rng}, attributes);
        runner.Share(0, CudaTensor(x.type(), offset));
        runner.Run(libraries);
        EXPECT_TRUE(SameBits(runner.output(0).Download(), want)) << graph::Name(dtype) << " " << n;
      }
    }
  }
}

TEST(CudaElementwise, DropsOfARanksPartWhatTheCpuDrops) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (DType dtype : kTypes) {
    for (int64_t width : {64, 40, 33}) {
      for (int64_t rows : {1001, 1024}) {
        for (const bool by_columns : {false, true}) {
          const TestTensor x = NormalValues(dtype, {rows, width}, 5);
          const TestTensor rng = Values(DType::kInt32, {2}, {11, -3});
          const graph::Attributes attributes{{"p", 0.3},
                                             {"key", int64_t{1} << 40},
                                             {"axis", std::string("tensor")},
                                             {"columns", by_columns}};
          RankOfSeveral among(2, 3);
          const TestTensor want =
              RunOp("dropout", {&x, &rng}, attributes, 2, {}, among.AlongTensor())[0];
          const TestTensor got =
              RunCudaOp("dropout", {&x, &rng}, libraries, attributes, {}, among.AlongTensor())[0];
          EXPECT_TRUE(SameBits(got, want)) << graph::Name(dtype) << " " << rows << " × " << width
                                           << (by_columns ? " columns" : " rows");
        }
      }
    }
  }
}

TEST(CudaElementwise, DropsTheScoresThatTheCpuDrops) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (DType dtype : kTypes) {
    for (int64_t sequence : {1, 15, 16, 98, 131, 264}) {
      const TestTensor x = NormalValues(dtype, {2, 2, 3 * sequence, sequence}, 5);
      const TestTensor rng = Values(DType::kInt32, {2}, {11, -3});
      const graph::Attributes attributes{{"p", 0.3}, {"key", int64_t{1} << 40}, {"scores", true}};
      const TestTensor want = RunOp("dropout", {&x, &rng}, attributes)[0];
      for (int64_t offset : {int64_t{0}, graph::ByteSize(dtype)}) {
        const CudaTensor device_x(x, offset), device_rng(rng);
        CudaOpRunner runner("dropout", {&device_x, &device_rng}, attributes);
        runner.Share(0, CudaTensor(x.type(), offset));
        runner.Run(libraries);
        EXPECT_TRUE(SameBits(runner.output(0).Download(), want))
            << graph::Name(dtype) << " " << sequence;
      }
    }
  }
}

// Checks the last elements of a tensor of more than 2^32.
TEST(CudaElementwise, CountsBeyond32Bits) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  constexpr int64_t kPattern = 1 << 20, kTimes = (1 << 12) + 1;
  const TestTensor pattern = NormalValues(DType::kBFloat16, {kPattern}, 9, 2.0);
  const CudaTensor x({DType::kBFloat16, {kPattern * kTimes}});
  const CudaTensor one(pattern);
  for (int64_t i = 0; i < kTimes; ++i) {
    gpu::Check(cudaMemcpyAsync(static_cast<char*>(x.data()) + i * pattern.type().bytes(),
                               one.data(), pattern.type().bytes(), cudaMemcpyDeviceToDevice),
               "cudaMemcpyAsync");
  }
  const auto last = [&](const CudaOpRunner& runner) {
    TestTensor host(pattern.type());
    gpu::Check(cudaMemcpy(host.data(),
                          static_cast<char*>(runner.output(0).data()) +
                              (kTimes - 1) * pattern.type().bytes(),
                          pattern.type().bytes(), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    return host;
  };

  const graph::Attributes tanh{{"approximate", std::string("tanh")}};
  CudaOpRunner small("gelu", {&one}, tanh), large("gelu", {&x}, tanh);
  small.Run(libraries);
  large.Run(libraries);
  EXPECT_TRUE(SameBits(last(large), small.output(0).Download()));

  const TestTensor rng = Values(DType::kInt32, {2}, {4, 2});
  const CudaTensor device_rng(rng);
  CudaOpRunner dropout("dropout", {&x, &device_rng}, {{"p", 0.5}, {"key", int64_t{3}}});
  dropout.Run(libraries);
  const TestTensor dropped = last(dropout);
  std::vector<uint32_t> words(kPattern / 2);
  DropoutStream(rng.as<int32_t>(), 3)
      .Words((kTimes - 1) * kPattern / 2, std::ssize(words), words.data());
  for (int64_t i = 0; i < kPattern; ++i) {
    const bool drops = (words[i / 2] >> i % 2 * 16 & 0xFFFF) < DropRule(0.5).threshold;
    ASSERT_EQ(dropped.at(i), drops ? 0 : 2 * pattern.at(i)) << i;
  }
}

TEST(CudaElementwise, SumsEmbeddingsAndShowsTokensOutsideTheTable) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  for (DType dtype : kTypes) {
    for (int64_t width : {768, 33}) {
      TestTensor tokens({DType::kInt32, {4, 9}});
      for (int64_t i = 0; i < tokens.size(); ++i) tokens.set(i, (i * 7) % 13);
      const TestTensor weight = NormalValues(dtype, {13, width}, 1);
      const TestTensor position = NormalValues(dtype, {16, width}, 2);
      const TestTensor first = Values(DType::kInt32, {1}, {5});
      const TestTensor want = RunOp("embedding", {&tokens, &weight, &position, &first})[0];
      const CudaTensor device_weight(weight), device_position(position), device_first(first);
      for (bool outside : {false, true}) {
        if (outside) tokens.set(10, 13);
        const CudaTensor device_tokens(tokens);
        CudaOpRunner runner("embedding",
                            {&device_tokens, &device_weight, &device_position, &device_first}, {});
        runner.Run(libraries);
        const TestTensor got = runner.output(0).Download();
        if (!outside) {
          EXPECT_TRUE(SameBits(got, want)) << graph::Name(dtype) << " " << width;
        } else {
          EXPECT_TRUE(std::isnan(got.at(10 * width)) && std::isnan(got.at(11 * width - 1)));
          EXPECT_FALSE(std::isnan(got.at(10 * width - 1)) || std::isnan(got.at(11 * width)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
