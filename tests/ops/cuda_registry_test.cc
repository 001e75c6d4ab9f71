// Every op's CUDA kernel compared with its CPU kernel, by the registry's examples and in each type
// that a GPU computes with; two runs with the same bits, as a graph, in place, with outputs left
// out, and with unaligned tensors. An op without a CUDA kernel fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda_kernel.h"
#include "ops/kernel.h"
#include "tests/ops/cuda_call.h"
#include "tests/ops/example_test.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpDef;
using graph::OpRegistry;

TEST(CudaRegistry, EveryOpHasAKernel) {
  for (const OpDef* op : OpRegistry::Get().All()) {
    if (!op->view) {
      EXPECT_NE(FindCudaKernel(op->name), nullptr) << op->name << " has no CUDA kernel";
    }
  }
}

// The float32 weight that a bf16 and its 16-bit remainder represent.
float Joined(const HostTensor& p, const HostTensor& remainder, int64_t i) {
  uint16_t high;
  int16_t low;
  std::memcpy(&high, &p.bytes[i * sizeof(high)], sizeof(high));
  std::memcpy(&low, &remainder.bytes[i * sizeof(low)], sizeof(low));
  return std::bit_cast<float>((uint32_t{high} << 16) + static_cast<uint32_t>(int32_t{low}));
}

// 8-bit floats. `neighbours`: what they are codes of was rounded before, so that a code may be the
// one above or below. Magnitudes are ordered as their bits.
void ExpectCodesAgree(const HostTensor& cuda, const HostTensor& cpu, bool neighbours) {
  for (size_t i = 0; i < cpu.bytes.size(); ++i) {
    const auto place = [](std::byte code) {
      const int bits = std::to_integer<int>(code), magnitude = bits & 0x7f;
      return bits == magnitude ? magnitude : -magnitude;
    };
    const int apart = std::abs(place(cuda.bytes[i]) - place(cpu.bytes[i]));
    ASSERT_LE(apart, neighbours ? 1 : 0) << "element " << i;
    ASSERT_TRUE(neighbours || cuda.bytes[i] == cpu.bytes[i]) << "element " << i;
  }
}

// Both devices compute in float32 and round results once, so a result may lie on either side of a
// rounding boundary. `dtype`: the type of the op's activations.
void ExpectAgree(const Example& example, DType dtype, const Outputs& cuda, const Outputs& cpu) {
  ASSERT_EQ(cuda.size(), cpu.size());
  for (size_t k = 0; k < cpu.size(); ++k) {
    SCOPED_TRACE("output " + std::to_string(k));
    ASSERT_EQ(cuda[k].has_value(), cpu[k].has_value());
    if (!cpu[k]) continue;
    const DType type = cpu[k]->type.dtype;
    if (graph::IsFloat8(type)) {
      ExpectCodesAgree(*cuda[k], *cpu[k], example.cuda_tolerance > 0);
      continue;
    }
    const int64_t n = cpu[k]->type.shape.elements();
    double tolerance =
        (2 * Rounding(type) +
         (2 * example.low_precision_tolerance + example.cuda_tolerance) * Rounding(dtype) +
         2 * example.float32_tolerance) *
        Largest(*cpu[k]);
    if (type == DType::kUInt8) tolerance = 1;  // codes on either side of a boundary
    for (int64_t i = 0; i < n; ++i) {
      const double got = cuda[k]->value(i), want = cpu[k]->value(i);
      if (type == DType::kInt32) {
        ASSERT_EQ(got, want) << "element " << i;
      } else if (type == DType::kInt16) {
        // With the bf16 output 0 it forms a float32 (ops/optimizer/optimizer.h). The last bits of
        // an adamw step differ: by at most 2^-22.6 of the largest weight, measured on an H200.
        const double apart = Joined(*cuda[0], *cuda[k], i) - Joined(*cpu[0], *cpu[k], i);
        ASSERT_LE(std::fabs(apart), 0x1p-22 * Largest(*cpu[0])) << "element " << i;
      } else if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << "element " << i;
      } else {
        ASSERT_TRUE(std::fabs(got - want) <= tolerance || got == want)
            << "element " << i << ": " << got << ", on the CPU " << want;
      }
    }
  }
}

class CudaOpTest : public ExampleTest {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    if (op().view) GTEST_SKIP() << "a view: no kernel";
    if (MakesFloat64()) GTEST_SKIP() << "makes f64, which is for the CPU alone";
  }

  static Outputs RunOnCuda(const GuardedCall& call) { return RunCudaKernel(call); }

  Outputs RunOnCpu(const Outputs& inputs) const {
    GuardedCall call = Call(inputs);
    call.count_allocations = false;
    return RunKernel(call, Pool());
  }

  // True if the attribute of cast or fill says so.
  bool MakesFloat64() const {
    const graph::Attributes& attributes = example().attributes;
    return attributes.Has("dtype") && attributes.GetWord("dtype") == "f64";
  }

  // The example's types that a GPU computes with.
  std::vector<DType> dtypes() const {
    std::vector<DType> dtypes = example().dtypes;
    std::erase(dtypes, DType::kFloat64);
    return dtypes;
  }

  ThreadPool& Pool() const {
    static ThreadPool pool(1);
    return pool;
  }
};

TEST_P(CudaOpTest, AgreesWithTheCpu) {
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const Outputs cpu = RunOnCpu(inputs);
    const Outputs cuda = RunCudaKernel(Call(inputs));
    ExpectAgree(example(), dtype, cuda, cpu);
    EXPECT_EQ(RunCudaKernel(Call(inputs)), cuda) << "a second run has other bits";
    EXPECT_EQ(RunCudaKernel(Call(inputs), {.capture = true}), cuda) << "a graph has other bits";
  }
}

// Views and shards start at any address that is a multiple of 16 bytes.
TEST_P(CudaOpTest, AgreesWithTheCpuOffAlignment) {
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    ExpectAgree(example(), dtype, RunCudaKernel(Call(inputs), {.misalign = 16}), RunOnCpu(inputs));
  }
}

TEST_P(CudaOpTest, GivesTheSameBitsInPlace) {
  for (DType dtype : dtypes()) ExpectSameBitsInPlace(dtype, &RunOnCuda);
}

TEST_P(CudaOpTest, FindsTheLargestMagnitudesOfItsResults) {
  for (DType dtype : dtypes()) ExpectLargestOfResults(dtype, &RunOnCuda);
}

// With and without column sums, different algorithms may have been measured as fastest: here both
// use cuBLAS's first choice.
TEST_P(CudaOpTest, OptionalOutputsDoNotMatterToTheOthers) {
  ChoiceOptions first;
  first.measure = false;
  SetChoices(first);
  for (DType dtype : dtypes()) ExpectSameBitsWithoutOptionalOutputs(dtype, &RunOnCuda);
  SetChoices({});
}

INSTANTIATE_TEST_SUITE_P(Examples, CudaOpTest, testing::ValuesIn(Examples()), ExampleName);

}  // namespace
}  // namespace plimsoll::ops
