// Every op's CUDA kernel against its CPU kernel, by the registry's examples and in each type a GPU
// computes with; twice with the same bits, as a graph, in place, with outputs left out, and with
// tensors off their alignment. An op without a CUDA kernel fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/cuda_kernel.h"
#include "ops/kernel.h"
#include "tests/ops/cuda_call.h"
#include "tests/support/cuda_device.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::OpDef;
using graph::OpRegistry;
using Outputs = std::vector<std::optional<HostTensor>>;

TEST(CudaRegistry, EveryOpHasAKernel) {
  for (const OpDef* op : OpRegistry::Get().All()) {
    if (!op->view) {
      EXPECT_NE(FindCudaKernel(op->name), nullptr) << op->name << " has no CUDA kernel";
    }
  }
}

double Rounding(DType dtype) {
  return dtype == DType::kBFloat16 ? 0x1p-8 : dtype == DType::kFloat16 ? 0x1p-11 : 0;
}

// The weight that a bf16 and a 16-bit remainder make together.
float Joined(const HostTensor& p, const HostTensor& remainder, int64_t i) {
  uint16_t high;
  int16_t low;
  std::memcpy(&high, &p.bytes[i * sizeof(high)], sizeof(high));
  std::memcpy(&low, &remainder.bytes[i * sizeof(low)], sizeof(low));
  return std::bit_cast<float>((uint32_t{high} << 16) + static_cast<uint32_t>(int32_t{low}));
}

// Both devices compute in float32 and round results once, so a result may lie on either side of a
// rounding boundary. `dtype`: of the op's activations.
void ExpectAgree(const Example& example, DType dtype, const Outputs& cuda, const Outputs& cpu) {
  ASSERT_EQ(cuda.size(), cpu.size());
  for (size_t k = 0; k < cpu.size(); ++k) {
    SCOPED_TRACE("output " + std::to_string(k));
    ASSERT_EQ(cuda[k].has_value(), cpu[k].has_value());
    if (!cpu[k]) continue;
    const DType type = cpu[k]->type.dtype;
    const int64_t n = cpu[k]->type.shape.elements();
    double largest = 1;
    for (int64_t i = 0; i < n; ++i) {
      if (std::isfinite(cpu[k]->value(i))) largest = std::max(largest, std::fabs(cpu[k]->value(i)));
    }
    double tolerance =
        (2 * Rounding(type) +
         (2 * example.low_precision_tolerance + example.cuda_tolerance) * Rounding(dtype) +
         2 * example.float32_tolerance) *
        largest;
    if (type == DType::kUInt8) tolerance = 1;  // codes: on either side of a boundary
    for (int64_t i = 0; i < n; ++i) {
      const double got = cuda[k]->value(i), want = cpu[k]->value(i);
      if (type == DType::kInt32) {
        ASSERT_EQ(got, want) << "element " << i;
      } else if (type == DType::kInt16) {
        // With output 0, bf16, it makes a float32 (ops/optimizer.h).
        const double apart = Joined(*cuda[0], *cuda[k], i) - Joined(*cpu[0], *cpu[k], i);
        ASSERT_LE(std::fabs(apart), 2 * example.float32_tolerance) << "element " << i;
      } else if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << "element " << i;
      } else {
        ASSERT_TRUE(std::fabs(got - want) <= tolerance || got == want)
            << "element " << i << ": " << got << ", on the CPU " << want;
      }
    }
  }
}

class CudaOpTest : public testing::TestWithParam<Example> {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    if (op().view) GTEST_SKIP() << "a view: no kernel";
    if (MakesFloat64()) GTEST_SKIP() << "makes f64, which is for the CPU alone";
  }

  const Example& example() const { return GetParam(); }
  const OpDef& op() const { return OpRegistry::Get().Require(example().op); }

  GuardedCall Call(const Outputs& inputs) const {
    return {.op = op(),
            .attributes = example().attributes,
            .inputs = inputs,
            .count_allocations = false};
  }

  // By the attribute of cast and fill.
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
    const Outputs cpu = RunKernel(Call(inputs), Pool());
    const Outputs cuda = RunCudaKernel(Call(inputs));
    ExpectAgree(example(), dtype, cuda, cpu);
    EXPECT_EQ(RunCudaKernel(Call(inputs)), cuda) << "a second run has other bits";
    EXPECT_EQ(RunCudaKernel(Call(inputs), {.capture = true}), cuda) << "a graph has other bits";
  }
}

// Views and shards start anywhere, if at 16 bytes.
TEST_P(CudaOpTest, AgreesWithTheCpuOffAlignment) {
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    ExpectAgree(example(), dtype, RunCudaKernel(Call(inputs), {.misalign = 16}),
                RunKernel(Call(inputs), Pool()));
  }
}

TEST_P(CudaOpTest, GivesTheSameBitsInPlace) {
  for (DType dtype : dtypes()) {
    SCOPED_TRACE(graph::Name(dtype));
    const Outputs inputs = MakeInputs(example(), dtype);
    const Outputs expected = RunCudaKernel(Call(inputs));
    for (const graph::InPlacePair& pair : op().in_place) {
      if (static_cast<size_t>(pair.input) >= inputs.size() || !inputs[pair.input]) continue;
      GuardedCall call = Call(inputs);
      call.shared = {pair};
      EXPECT_EQ(RunCudaKernel(call), expected)
          << "input " << pair.input << " output " << pair.output;
    }
  }
}

TEST_P(CudaOpTest, OptionalOutputsDoNotMatterToTheOthers) {
  for (size_t left_out = 0; left_out < op().outputs.size(); ++left_out) {
    if (!op().outputs[left_out].optional) continue;
    for (DType dtype : dtypes()) {
      SCOPED_TRACE(graph::Name(dtype));
      const Outputs inputs = MakeInputs(example(), dtype);
      Outputs expected = RunCudaKernel(Call(inputs));
      expected[left_out].reset();
      GuardedCall call = Call(inputs);
      call.want.assign(op().outputs.size(), true);
      call.want[left_out] = false;
      EXPECT_EQ(RunCudaKernel(call), expected) << "without output " << left_out;
    }
  }
}

std::string TestName(const testing::TestParamInfo<Example>& info) {
  std::string name = info.param.op;
  if (!info.param.label.empty()) name += "_" + info.param.label;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Examples, CudaOpTest, testing::ValuesIn(Examples()), TestName);

}  // namespace

// For GoogleTest's messages.
void PrintTo(const Example& example, std::ostream* out) {
  *out << example.op << " " << example.label;
}
void PrintTo(const HostTensor& tensor, std::ostream* out) {
  *out << tensor.type.ToString();
  const int64_t n = std::min<int64_t>(8, tensor.type.shape.elements());
  for (int64_t i = 0; i < n; ++i) *out << " " << tensor.value(i);
}

}  // namespace plimsoll::ops
