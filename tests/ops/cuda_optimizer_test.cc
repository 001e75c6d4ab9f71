// adamw and sgd on the GPU: compared step by step with the CPU for every way to store weights and
// moments, and many parameters in one launch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/low_precision.h"
#include "gpu/libraries.h"
#include "ops/optimizer/optimizer.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/op_runner.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Shape;

constexpr int64_t kN = 20011;  // more than one block's share, and a part of a tile at the end

// The storage of a parameter. `master`: kInt16, kFloat32, or none.
struct Form {
  std::string name;
  DType p = DType::kFloat32;
  std::optional<DType> master = {};
  DType m = DType::kFloat32;
  DType v = DType::kFloat32;
};

const std::vector<Form>& Forms() {
  static const std::vector<Form> forms = {
      {"float32"},
      {"float32_moments_bf16", DType::kFloat32, {}, DType::kBFloat16, DType::kBFloat16},
      {"float32_moments_u8", DType::kFloat32, {}, DType::kUInt8, DType::kUInt8},
      {"float32_moments_mixed", DType::kFloat32, {}, DType::kUInt8, DType::kBFloat16},
      {"split", DType::kBFloat16, DType::kInt16},
      {"split_moments_bf16", DType::kBFloat16, DType::kInt16, DType::kBFloat16, DType::kBFloat16},
      {"split_moments_u8", DType::kBFloat16, DType::kInt16, DType::kUInt8, DType::kUInt8},
      {"bf16_master", DType::kBFloat16, DType::kFloat32},
      {"f16_master", DType::kFloat16, DType::kFloat32},
      {"f16_master_moments_u8", DType::kFloat16, DType::kFloat32, DType::kUInt8, DType::kUInt8},
      {"rounded", DType::kBFloat16},
      {"rounded_moments_bf16", DType::kBFloat16, {}, DType::kBFloat16, DType::kBFloat16},
      {"rounded_moments_u8", DType::kBFloat16, {}, DType::kUInt8, DType::kUInt8},
  };
  return forms;
}

TestTensor Zeros(DType dtype, Shape shape) {
  TestTensor tensor({dtype, shape});
  std::memset(tensor.data(), 0, tensor.type().bytes());
  return tensor;
}

Attributes AdamWAttributes(double weight_decay = 0.1, int64_t key = 7) {
  return {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", weight_decay}, {"key", key}};
}

// An update's operands on the host: of adamw, or of sgd, which has no v.
struct State {
  Form form;
  bool adamw = true;
  bool momentum = true;  // of sgd
  TestTensor p, m, v;
  std::optional<TestTensor> master, m_scales, v_scales;

  State(const Form& f, int64_t n, int seed, bool is_adamw = true) : form(f), adamw(is_adamw) {
    const TestTensor start = NormalValues(DType::kFloat32, {n}, seed);
    p = Zeros(f.p, {n});
    if (f.master) master = Zeros(*f.master, {n});
    for (int64_t i = 0; i < n; ++i) {
      const SplitFloat parts = Split(start.as<float>()[i]);
      p.set(i, start.at(i));
      if (f.master == DType::kFloat32) master->set(i, start.at(i));
      if (f.master == DType::kInt16) {
        p.as<BFloat16>()[i] = parts.high;
        master->as<int16_t>()[i] = parts.low;
      }
    }
    m = Zeros(f.m, {n});
    v = Zeros(f.v, {n});
    if (f.m == DType::kUInt8) m_scales = Zeros(DType::kFloat32, ScalesShape({n}));
    if (f.v == DType::kUInt8) v_scales = Zeros(DType::kFloat32, ScalesShape({n}));
  }

  std::string op() const { return adamw ? "adamw" : "sgd"; }

  // The trained value.
  double weight(int64_t i) const {
    if (form.master == DType::kFloat32) return master->at(i);
    if (form.master == DType::kInt16) return Join(p.as<BFloat16>()[i], master->as<int16_t>()[i]);
    return p.at(i);
  }

  std::vector<TestTensor*> Outputs() {
    const auto given = [](std::optional<TestTensor>& x) { return x ? &*x : nullptr; };
    if (adamw) return {&p, &m, &v, given(master), given(m_scales), given(v_scales)};
    return {&p, momentum ? &m : nullptr, given(master), given(m_scales)};
  }

  template <typename Tensor, typename Pointer>
  std::vector<Pointer> Inputs(Pointer gradient, Pointer lr, Pointer count, Pointer clip,
                              Pointer apply, Pointer rng, const std::vector<Pointer>& own) const {
    if (adamw) {
      return {own[0], gradient, own[1], own[2], lr,     count,
              clip,   apply,    own[3], own[4], own[5], rng};
    }
    return {own[0], gradient, own[1], lr, clip, apply, own[2], own[3], rng};
  }
};

// Inputs common to all updates of a step.
struct Scalars {
  explicit Scalars(int step, bool applied = true)
      : lr(Values(DType::kFloat32, {}, {0.01})),
        count(Values(DType::kInt32, {}, {static_cast<double>(step)})),
        clip(Values(DType::kFloat32, {}, {0.7})),
        apply(Values(DType::kInt32, {}, {applied ? 1.0 : 0.0})),
        rng(Values(DType::kInt32, {2}, {3, static_cast<double>(step)})) {}
  TestTensor lr, count, clip, apply, rng;
};

std::vector<const TestTensor*> InputsOf(State& state, const TestTensor& gradient,
                                        const Scalars& s) {
  const std::vector<TestTensor*> outputs = state.Outputs();
  const std::vector<const TestTensor*> own(outputs.begin(), outputs.end());
  return state.Inputs<TestTensor, const TestTensor*>(&gradient, &s.lr, &s.count, &s.clip, &s.apply,
                                                     &s.rng, own);
}

std::vector<bool> Wanted(State& state) {
  std::vector<bool> want;
  for (const TestTensor* output : state.Outputs()) want.push_back(output != nullptr);
  return want;
}

void Take(State& state, const std::vector<TestTensor>& results) {
  const std::vector<TestTensor*> outputs = state.Outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != nullptr) *outputs[i] = results[i];
  }
}

void StepOnCpu(State& state, const TestTensor& gradient, const Scalars& s,
               const Attributes& attributes) {
  Take(state, RunOp(state.op(), InputsOf(state, gradient, s), attributes, 2, Wanted(state)));
}

void StepOnCuda(State& state, const TestTensor& gradient, const Scalars& s,
                const Attributes& attributes, gpu::Libraries& libraries) {
  Take(state,
       RunCudaOp(state.op(), InputsOf(state, gradient, s), libraries, attributes, Wanted(state)));
}

// Moments are equal to the bit; weights up to a few units in the last place of weight and update;
// stochastically rounded weights are equal, except for one in a thousand.
void ExpectSame(State& cuda, State& cpu, bool bits_of_weight) {
  const std::vector<TestTensor*> got = cuda.Outputs(), want = cpu.Outputs();
  const size_t master = cuda.adamw ? 3 : 2;
  for (size_t i = 1; i < got.size(); ++i) {
    if (got[i] == nullptr || i == master) continue;
    ASSERT_TRUE(SameBits(*got[i], *want[i])) << "output " << i;
  }
  int64_t other = 0;
  const bool rounded = cuda.form.p == DType::kBFloat16 && !cuda.form.master;
  for (int64_t i = 0; i < cuda.p.size(); ++i) {
    const double a = cuda.weight(i), b = cpu.weight(i);
    const double most = rounded ? 0x1p-7 * std::abs(b) + 1e-6 : 0x1p-22 * (std::abs(b) + 0.05);
    ASSERT_NEAR(a, b, most) << "weight " << i;
    other += a != b;
  }
  if (rounded) {
    EXPECT_LE(other, cuda.p.size() / 1000);
  }
  if (bits_of_weight) {
    EXPECT_EQ(other, 0);
  }
}

void SetBits(TestTensor& to, const TestTensor& from) {
  std::memcpy(to.data(), from.data(), from.type().bytes());
}

// Makes 100 steps, each from the CPU's state.
void FollowTheCpu(const Form& form, bool adamw, const Attributes& attributes, bool bits_of_weight) {
  gpu::Libraries libraries;
  State cpu(form, kN, 1, adamw), cuda(form, kN, 1, adamw);
  for (int step = 1; step <= 100; ++step) {
    SCOPED_TRACE(form.name + ", step " + std::to_string(step));
    // Gradients of very different sizes, as in training; some exactly zero.
    TestTensor gradient =
        NormalValues(DType::kFloat32, {kN}, 100 + step, std::pow(10, step % 5 - 3));
    for (int64_t i = 0; i < kN; i += 7) gradient.set(i, 0);
    const std::vector<TestTensor*> to = cuda.Outputs(), from = cpu.Outputs();
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] != nullptr) SetBits(*to[i], *from[i]);
    }
    const Scalars scalars(step);
    StepOnCpu(cpu, gradient, scalars, attributes);
    StepOnCuda(cuda, gradient, scalars, attributes, libraries);
    ExpectSame(cuda, cpu, bits_of_weight);
    if (testing::Test::HasFailure()) return;
  }
}

class CudaOptimizer : public testing::TestWithParam<Form> {};

TEST_P(CudaOptimizer, AdamWFollowsTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  FollowTheCpu(GetParam(), true, AdamWAttributes(), false);
}

// Their random numbers begin where the slice does.
TEST_P(CudaOptimizer, SlicesFollowTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  Attributes attributes = AdamWAttributes();
  attributes.Set("first_element", int64_t{1} << 33);
  FollowTheCpu(GetParam(), true, attributes, false);
}

// Nothing in sgd is approximate: the same bits.
TEST_P(CudaOptimizer, SgdFollowsTheCpu) {
  PLIMSOLL_NEEDS_CUDA
  for (const bool nesterov : {false, true}) {
    FollowTheCpu(
        GetParam(), false,
        {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", 0.1}, {"key", int64_t{7}}},
        true);
  }
}

// Makes the steps without resetting to the CPU's state.
TEST_P(CudaOptimizer, StaysNearTheCpuFor100Steps) {
  PLIMSOLL_NEEDS_CUDA
  if (GetParam().p == DType::kBFloat16 && !GetParam().master) {
    GTEST_SKIP() << "a weight rounded to the other side stays there";
  }
  gpu::Libraries libraries;
  State cpu(GetParam(), kN, 1), cuda(GetParam(), kN, 1);
  for (int step = 1; step <= 100; ++step) {
    const TestTensor gradient = NormalValues(DType::kFloat32, {kN}, 100 + step);
    StepOnCpu(cpu, gradient, Scalars(step), AdamWAttributes());
    StepOnCuda(cuda, gradient, Scalars(step), AdamWAttributes(), libraries);
  }
  EXPECT_TRUE(SameBits(cuda.m, cpu.m));
  EXPECT_TRUE(SameBits(cuda.v, cpu.v));
  for (int64_t i = 0; i < kN; ++i) {
    ASSERT_NEAR(cuda.weight(i), cpu.weight(i), 2e-6 * (1 + std::abs(cpu.weight(i)))) << i;
  }
}

TEST_P(CudaOptimizer, ASkippedStepLeavesEverythingToTheBit) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const TestTensor overflowed = Values(DType::kFloat32, {kN}, std::vector<double>(kN, NAN));
  for (const bool adamw : {true, false}) {
    State state(GetParam(), kN, 1, adamw);
    const Attributes attributes =
        adamw ? AdamWAttributes()
              : Attributes{{"momentum", 0.9}, {"nesterov", false}, {"weight_decay", 0.1}};
    Attributes keyed = attributes;
    if (!adamw) keyed.Set("key", int64_t{7});
    StepOnCuda(state, NormalValues(DType::kFloat32, {kN}, 2), Scalars(1), keyed, libraries);
    State skipped = state;  // a step replaces its tensors
    StepOnCuda(skipped, overflowed, Scalars(2, false), keyed, libraries);
    const std::vector<TestTensor*> before = state.Outputs(), after = skipped.Outputs();
    for (size_t i = 0; i < before.size(); ++i) {
      if (before[i] == nullptr) continue;
      EXPECT_TRUE(SameBits(*before[i], *after[i])) << i;
    }
  }
}

TEST_P(CudaOptimizer, NansArePassedOn) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  State cpu(GetParam(), kN, 1), cuda(GetParam(), kN, 1);
  TestTensor gradient = NormalValues(DType::kFloat32, {kN}, 2);
  gradient.set(300, NAN);
  gradient.set(kN - 1, INFINITY);
  StepOnCpu(cpu, gradient, Scalars(1), AdamWAttributes());
  StepOnCuda(cuda, gradient, Scalars(1), AdamWAttributes(), libraries);
  for (int64_t i = 0; i < kN; ++i) {
    ASSERT_EQ(std::isnan(cuda.weight(i)), std::isnan(cpu.weight(i))) << i;
    ASSERT_EQ(std::isnan(cuda.m.at(i)), std::isnan(cpu.m.at(i))) << i;
  }
  EXPECT_TRUE(std::isnan(cuda.weight(300)));
}

// Second moments are never negative; memory with a negative one must not lead to an index outside
// the table of codes.
TEST_P(CudaOptimizer, NegativeSecondMomentsCountAsZero) {
  PLIMSOLL_NEEDS_CUDA
  if (GetParam().v != DType::kUInt8) GTEST_SKIP() << "its codes have no table";
  gpu::Libraries libraries;
  State state(GetParam(), kN, 1);
  StepOnCuda(state, NormalValues(DType::kFloat32, {kN}, 2), Scalars(1), AdamWAttributes(),
             libraries);
  for (int64_t i = 0; i < state.v_scales->size(); ++i) state.v_scales->set(i, -1000);
  TestTensor gradient = NormalValues(DType::kFloat32, {kN}, 3);
  for (int64_t i = 0; i < kN; i += 5) gradient.set(i, 200);  // these stay positive
  StepOnCuda(state, gradient, Scalars(2), AdamWAttributes(), libraries);
  for (int64_t i = 0; i < state.v_scales->size(); ++i) EXPECT_GE(state.v_scales->at(i), 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, CudaOptimizer, testing::ValuesIn(Forms()),
                         [](const auto& info) { return info.param.name; });

// A parameter on the GPU that is updated in place.
struct CudaUpdate {
  std::unique_ptr<CudaOpRunner> runner;
  std::vector<CudaTensor> state;

  CudaUpdate(State host, const std::vector<CudaTensor>& scalars, const Attributes& attributes) {
    std::vector<const CudaTensor*> own;
    const std::vector<TestTensor*> outputs = host.Outputs();
    state.reserve(outputs.size() + 1);
    for (const TestTensor* tensor : outputs) {
      if (tensor != nullptr) state.emplace_back(*tensor);
      own.push_back(tensor != nullptr ? &state.back() : nullptr);
    }
    const CudaTensor gradient(NormalValues(DType::kFloat32, host.p.type().shape, 5));
    const std::vector<const CudaTensor*> inputs = host.Inputs<CudaTensor, const CudaTensor*>(
        &gradient, &scalars[0], &scalars[1], &scalars[2], &scalars[3], &scalars[4], own);
    runner = std::make_unique<CudaOpRunner>(host.op(), inputs, attributes, Wanted(host));
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i] != nullptr) runner->Share(i, *own[i]);
    }
  }
};

// More parameters than fit one launch, of all forms and sizes, with decay or without.
std::vector<CudaUpdate> ManyUpdates(const std::vector<CudaTensor>& scalars) {
  constexpr int64_t kSizes[] = {1, 5, 255, 256, 257, 8191, 8192, 8193, 30000};
  std::vector<CudaUpdate> updates;
  for (int i = 0; i < 300; ++i) {
    // Most of them have the same form, as in a model.
    const Form& form = i % 3 == 0 ? Forms()[i / 3 % Forms().size()] : Forms()[4];
    updates.emplace_back(State(form, kSizes[i % 9], i), scalars,
                         AdamWAttributes(i % 2 == 0 ? 0.1 : 0, i));
  }
  return updates;
}

TEST(CudaOptimizerGroup, EqualsSingleUpdatesToTheBit) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  const Scalars host(3);
  const std::vector<CudaTensor> scalars = {CudaTensor(host.lr), CudaTensor(host.count),
                                           CudaTensor(host.clip), CudaTensor(host.apply),
                                           CudaTensor(host.rng)};
  const std::vector<CudaUpdate> single = ManyUpdates(scalars), grouped = ManyUpdates(scalars);
  for (const CudaUpdate& update : single) update.runner->Run(libraries);
  std::vector<CudaContext> contexts;
  for (const CudaUpdate& update : grouped) contexts.push_back(update.runner->Context(libraries));
  FindCudaKernel("adamw")->run_group(contexts);
  gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  for (size_t i = 0; i < single.size(); ++i) {
    for (size_t k = 0; k < single[i].state.size(); ++k) {
      ASSERT_TRUE(SameBits(single[i].state[k].Download(), grouped[i].state[k].Download()))
          << "parameter " << i << ", tensor " << k;
    }
  }
}

// Of all forms and sizes, more than fit one launch.
TEST(CudaOptimizerGroup, AveragesAndExchangesAsTheCpuToTheBit) {
  PLIMSOLL_NEEDS_CUDA
  gpu::Libraries libraries;
  constexpr int64_t kSizes[] = {1, 5, 255, 256, 257, 8191, 16384, 16385, 30000};
  const Form forms[] = {Forms()[0], Forms()[4], Forms()[7], Forms()[8], Forms()[10]};
  for (const std::string op : {"weight_average", "exchange_average"}) {
    const bool averages = op == "weight_average";
    const Attributes attributes =
        averages ? Attributes{{"decay", 0.99}, {"warmup", true}} : Attributes{};
    const TestTensor count = Values(DType::kInt32, {}, {7}), apply = Values(DType::kInt32, {}, {1});
    const CudaTensor cuda_count(count), cuda_apply(apply);
    std::vector<CudaOpRunner> runners;
    std::vector<std::vector<TestTensor>> expected;
    for (int i = 0; i < 500; ++i) {
      State state(forms[i % 5], kSizes[i % 9], i);
      const TestTensor average = NormalValues(DType::kFloat32, state.p.type().shape, 1000 + i);
      const TestTensor* const master = state.master ? &*state.master : nullptr;
      const CudaTensor cuda_p(state.p), cuda_average(average);
      const std::optional<CudaTensor> own =
          master != nullptr ? std::optional<CudaTensor>(*master) : std::nullopt;
      const CudaTensor* const cuda_master = own ? &*own : nullptr;
      const std::vector<bool> want = {true, true, master != nullptr};
      if (averages) {
        expected.push_back(RunOp(op, {&average, &state.p, &count, master, &apply}, attributes));
        runners.emplace_back(op,
                             std::vector<const CudaTensor*>{&cuda_average, &cuda_p, &cuda_count,
                                                            cuda_master, &cuda_apply},
                             attributes);
      } else {
        expected.push_back(RunOp(op, {&state.p, &average, master}, attributes, 2, want));
        runners.emplace_back(op,
                             std::vector<const CudaTensor*>{&cuda_p, &cuda_average, cuda_master},
                             attributes, want);
      }
      if (master == nullptr && !averages) expected.back().pop_back();
    }
    std::vector<CudaContext> contexts;
    for (const CudaOpRunner& runner : runners) contexts.push_back(runner.Context(libraries));
    FindCudaKernel(op)->run_group(contexts);
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (size_t i = 0; i < runners.size(); ++i) {
      for (size_t k = 0; k < expected[i].size(); ++k) {
        ASSERT_TRUE(SameBits(runners[i].output(k).Download(), expected[i][k]))
            << op << ", parameter " << i << ", tensor " << k;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::ops
