// Properties of the optimizer's ops: exact split weights, stochastic rounding, 8-bit state, skipped
// steps.
#include "ops/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/low_precision.h"
#include "ops/elementwise/arithmetic.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/interpreter.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;
using graph::Program;
using graph::Role;
using graph::Shape;
using graph::TensorType;
using graph::Value;

constexpr int64_t kN = 700;  // two blocks and a part

Attributes AdamWAttributes() {
  return {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}, {"key", int64_t{7}}};
}

TestTensor Zeros(DType dtype, Shape shape) {
  TestTensor tensor({dtype, shape});
  std::memset(tensor.data(), 0, tensor.type().bytes());
  return tensor;
}

// An update with its state, stored in any way, that makes one step after another.
struct AdamWState {
  TestTensor p, m, v;
  std::optional<TestTensor> master, m_scales, v_scales;

  void Step(const TestTensor& gradient, int count, const TestTensor* apply = nullptr) {
    const TestTensor lr = Values(DType::kFloat32, {}, {0.01});
    const TestTensor t = Values(DType::kInt32, {}, {static_cast<double>(count)});
    const TestTensor rng = Values(DType::kInt32, {2}, {3, static_cast<double>(count)});
    auto given = [](const std::optional<TestTensor>& x) { return x ? &*x : nullptr; };
    OpRunner runner(
        "adamw",
        {&p, &gradient, &m, &v, &lr, &t, nullptr, apply, given(master), given(m_scales),
         given(v_scales), &rng},
        AdamWAttributes(), 2,
        {true, true, true, master.has_value(), m_scales.has_value(), v_scales.has_value()});
    runner.Run();
    p = runner.output(0);
    m = runner.output(1);
    v = runner.output(2);
    if (master) master = runner.output(3);
    if (m_scales) m_scales = runner.output(4);
    if (v_scales) v_scales = runner.output(5);
  }
};

AdamWState WithMoments(TestTensor p, DType dtype) {
  AdamWState state{std::move(p), Zeros(dtype, {kN}), Zeros(dtype, {kN}), {}, {}, {}};
  if (dtype == DType::kUInt8) {
    state.m_scales = Zeros(DType::kFloat32, ScalesShape({kN}));
    state.v_scales = Zeros(DType::kFloat32, ScalesShape({kN}));
  }
  return state;
}

TEST(Optimizer, UpdatesPersistentTensorsInPlace) {
  ThreadPool pool(1);
  Program program;
  graph::Builder g(program);
  const TensorType type{DType::kFloat32, {3}};
  const TensorType scalar{DType::kFloat32, {}};
  const Value p = g.Persistent("p", Role::kParameter, type);
  const Value m = g.Persistent("m", Role::kOptimizerState, type);
  const Value v = g.Persistent("v", Role::kOptimizerState, type);
  const UpdateInputs common = {.lr = g.Persistent("lr", Role::kInput, scalar)};
  const Value count = g.Persistent("count", Role::kOptimizerState, {DType::kInt32, {}});
  const Value gradient = Constant(g, type, 0.5, "gradient");
  Increment(g, count);
  AdamW(g, {p}, gradient, {m}, {v}, count, common, {.weight_decay = 0});
  EXPECT_EQ(program.nodes().back().outputs,
            (std::vector<Value>{p, m, v, graph::kNoTensor, graph::kNoTensor, graph::kNoTensor}));

  Interpreter interpreter(program, pool);
  interpreter.Set(p, std::vector<double>{1, 2, 3});
  interpreter.Set(m, std::vector<double>(3, 0));
  interpreter.Set(v, std::vector<double>(3, 0));
  interpreter.Set(common.lr, std::vector<double>{0.25});
  interpreter.Set(count, std::vector<double>{0});
  interpreter.Run();
  EXPECT_EQ(interpreter.Get(count), std::vector<double>{1});
  // The first update of Adam moves by lr against the sign of the gradient.
  const std::vector<double> updated = interpreter.Get(p);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(updated[i], i + 1 - 0.25, 1e-6);

  const Value other = Constant(g, type, 0);
  EXPECT_THROW(AdamW(g, {other}, gradient, {m}, {v}, count, common, {}), InternalError);
}

// A bf16 weight with its remainder equals a float32 weight to the bit, along a whole trajectory; so
// does a float32 master; and the 16-bit weight is always the rounded master.
// As PyTorch's parameter groups, whose rate is multiplied before anything is computed from it.
TEST(Optimizer, AFactorIsALowerLearningRate) {
  const TestTensor p = NormalValues(DType::kFloat32, {kN}, 1),
                   g = NormalValues(DType::kFloat32, {kN}, 2);
  const TestTensor m = NormalValues(DType::kFloat32, {kN}, 3), v = Zeros(DType::kFloat32, {kN});
  const TestTensor count = Values(DType::kInt32, {}, {4});
  const TestTensor lr = Values(DType::kFloat32, {}, {0.01});
  const TestTensor quarter = Values(DType::kFloat32, {}, {0.01f / 4});
  const auto adamw = [&](const TestTensor& rate, Attributes attributes) {
    OpRunner runner("adamw", {&p, &g, &m, &v, &rate, &count}, std::move(attributes), 2,
                    {true, true, true, false, false, false});
    runner.Run();
    return runner.output(0);
  };
  const auto sgd = [&](const TestTensor& rate, Attributes attributes) {
    OpRunner runner("sgd", {&p, &g, &m, &rate}, std::move(attributes), 2,
                    {true, true, false, false});
    runner.Run();
    return runner.output(0);
  };
  const auto with = [](Attributes attributes, double factor) {
    attributes.Set("lr_factor", factor);
    return attributes;
  };
  const Attributes of_adamw = {
      {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  const Attributes of_sgd = {{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.1}};
  EXPECT_TRUE(SameBits(adamw(lr, with(of_adamw, 0.25)), adamw(quarter, of_adamw)));
  EXPECT_TRUE(SameBits(sgd(lr, with(of_sgd, 0.25)), sgd(quarter, of_sgd)));
  EXPECT_FALSE(SameBits(adamw(lr, with(of_adamw, 0.25)), adamw(lr, of_adamw)));
  EXPECT_FALSE(SameBits(sgd(lr, with(of_sgd, 0.25)), sgd(lr, of_sgd)));
}

TEST(Optimizer, MastersFollowAFloat32WeightToTheBit) {
  const TestTensor start = NormalValues(DType::kFloat32, {kN}, 1);
  AdamWState whole = WithMoments(NormalValues(DType::kFloat32, {kN}, 1), DType::kFloat32);
  AdamWState split = WithMoments(Zeros(DType::kBFloat16, {kN}), DType::kFloat32);
  AdamWState half = WithMoments(Zeros(DType::kFloat16, {kN}), DType::kFloat32);
  split.master = Zeros(DType::kInt16, {kN});
  half.master = NormalValues(DType::kFloat32, {kN}, 1);
  for (int64_t i = 0; i < kN; ++i) {
    const SplitFloat parts = Split(start.as<float>()[i]);
    split.p.as<BFloat16>()[i] = parts.high;
    split.master->as<int16_t>()[i] = parts.low;
  }
  for (int step = 1; step <= 20; ++step) {
    const TestTensor gradient = NormalValues(DType::kFloat32, {kN}, 100 + step);
    whole.Step(gradient, step);
    split.Step(gradient, step);
    half.Step(gradient, step);
    EXPECT_TRUE(SameBits(*half.master, whole.p)) << step;
    for (int64_t i = 0; i < kN; ++i) {
      const float value = whole.p.as<float>()[i];
      const BFloat16 high = split.p.as<BFloat16>()[i];
      ASSERT_EQ(Join(high, split.master->as<int16_t>()[i]), value) << step << " " << i;
      const auto up = static_cast<uint16_t>((std::bit_cast<uint32_t>(value) + 0x8000) >> 16);
      ASSERT_EQ(high.bits, up);
      ASSERT_EQ(half.p.as<Float16>()[i].bits, ToF16(value));
    }
  }
}

TEST(Optimizer, ASkippedStepLeavesEverythingUntouched) {
  const TestTensor skip = Values(DType::kInt32, {}, {0});
  const TestTensor overflowed = Values(DType::kFloat32, {kN}, std::vector<double>(kN, INFINITY));
  for (DType p : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (DType moments : {DType::kFloat32, DType::kBFloat16, DType::kUInt8}) {
      AdamWState state = WithMoments(NormalValues(p, {kN}, 1), moments);
      if (p == DType::kFloat16) state.master = NormalValues(DType::kFloat32, {kN}, 1);
      if (p == DType::kBFloat16) state.master = Zeros(DType::kInt16, {kN});
      state.Step(NormalValues(DType::kFloat32, {kN}, 2), 1);
      const AdamWState before = state;
      state.Step(overflowed, 2, &skip);
      EXPECT_TRUE(SameBits(state.p, before.p) && SameBits(state.m, before.m) &&
                  SameBits(state.v, before.v));
      if (state.master) {
        EXPECT_TRUE(SameBits(*state.master, *before.master));
      }
      if (state.m_scales) {
        EXPECT_TRUE(SameBits(*state.m_scales, *before.m_scales) &&
                    SameBits(*state.v_scales, *before.v_scales));
      }
      // The same step, if applied, would have changed the weights.
      state.Step(overflowed, 2);
      EXPECT_FALSE(SameBits(state.p, before.p));
    }
  }
}

TEST(Optimizer, ASkippedSgdStepLeavesEverythingUntouched) {
  const TestTensor p = NormalValues(DType::kFloat32, {kN}, 1),
                   m = NormalValues(DType::kFloat32, {kN}, 2);
  const TestTensor g = NormalValues(DType::kFloat32, {kN}, 3),
                   lr = Values(DType::kFloat32, {}, {0.1});
  const Attributes attributes = {{"momentum", 0.9}, {"nesterov", false}, {"weight_decay", 0.0}};
  for (bool apply : {false, true}) {
    const TestTensor flag = Values(DType::kInt32, {}, {apply ? 1.0 : 0.0});
    const auto updated = RunOp("sgd", {&p, &g, &m, &lr, nullptr, &flag}, attributes);
    EXPECT_EQ(SameBits(updated[0], p), !apply);
    EXPECT_EQ(SameBits(updated[1], m), !apply);
    const TestTensor count = Values(DType::kInt32, {}, {5});
    EXPECT_EQ(RunOp("increment", {&count, &flag})[0].at(0), apply ? 6 : 5);
  }
}

// Steps of 2^-12 from 1, where bf16 values are 2^-7 apart: rounded to nearest, no step would ever
// move the weight; rounded stochastically, the mean moves by the step.
TEST(Optimizer, StochasticRoundingKeepsSmallUpdatesInTheMean) {
  constexpr int64_t kMany = 1 << 16;
  const TestTensor p = Values(DType::kBFloat16, {kMany}, std::vector<double>(kMany, 1));
  const TestTensor g = Values(DType::kFloat32, {kMany}, std::vector<double>(kMany, 1));
  const TestTensor lr = Values(DType::kFloat32, {}, {-0x1p-12});
  const TestTensor rng = Values(DType::kInt32, {2}, {1, 2});
  const Attributes attributes = {
      {"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}, {"key", int64_t{3}}};
  const auto moved =
      RunOp("sgd", {&p, &g, nullptr, &lr, nullptr, nullptr, nullptr, nullptr, &rng}, attributes);
  double sum = 0;
  for (int64_t i = 0; i < kMany; ++i) {
    const double value = moved[0].at(i);
    ASSERT_TRUE(value == 1 || value == 1 + 0x1p-7) << value;
    sum += value - 1;
  }
  // A fraction q of the weights moves by 2^-7: the mean's deviation is 2^-7 · √(q(1−q)/n).
  const double q = 0x1p-12 / 0x1p-7;
  EXPECT_NEAR(sum / kMany, 0x1p-12, 5 * 0x1p-7 * std::sqrt(q * (1 - q) / kMany));
  // If there is nothing to round, nothing changes.
  const TestTensor zero = Values(DType::kFloat32, {}, {0});
  EXPECT_TRUE(
      SameBits(RunOp("sgd", {&p, &g, nullptr, &zero, nullptr, nullptr, nullptr, nullptr, &rng},
                     attributes)[0],
               p));
}

// Elements of a slice are rounded as those of the whole.
TEST(Optimizer, ASliceIsUpdatedAsWithinTheWhole) {
  constexpr int64_t kFirst = 512;
  const TestTensor lr = Values(DType::kFloat32, {}, {0.01});
  const TestTensor count = Values(DType::kInt32, {}, {1});
  const TestTensor rng = Values(DType::kInt32, {2}, {3, 4});
  const TestTensor p = NormalValues(DType::kBFloat16, {kN}, 1),
                   g = NormalValues(DType::kFloat32, {kN}, 2);
  const TestTensor moment = Zeros(DType::kBFloat16, {kN});
  const auto update = [&](const TestTensor& weight, const TestTensor& gradient,
                          const TestTensor& state, const Attributes& attributes) {
    return RunOp("adamw",
                 {&weight, &gradient, &state, &state, &lr, &count, nullptr, nullptr, nullptr,
                  nullptr, nullptr, &rng},
                 attributes);
  };
  const auto behind = [&](const TestTensor& whole) {
    TestTensor part({whole.type().dtype, {kN - kFirst}});
    for (int64_t i = kFirst; i < kN; ++i) part.set(i - kFirst, whole.at(i));
    return part;
  };
  const auto whole = update(p, g, moment, AdamWAttributes());
  Attributes sliced = AdamWAttributes();
  sliced.Set("first_element", kFirst);
  const auto slice = update(behind(p), behind(g), behind(moment), sliced);
  const auto unplaced = update(behind(p), behind(g), behind(moment), AdamWAttributes());
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(SameBits(slice[i], behind(whole[i]))) << i;
    EXPECT_FALSE(SameBits(unplaced[i], slice[i])) << i;
  }
  sliced.Set("first_element", int64_t{10});
  EXPECT_THROW(update(p, g, moment, sliced), InternalError);
}

// The two moments and the weight draw separate random bits.
TEST(Optimizer, MomentsAndWeightRoundIndependently) {
  constexpr int64_t kMany = 1 << 14;
  // m = 0.1 and v = 0.05, neither a bf16 number, in every element.
  const TestTensor p = Values(DType::kBFloat16, {kMany}, std::vector<double>(kMany, 1));
  const TestTensor g = Values(DType::kFloat32, {kMany}, std::vector<double>(kMany, 1));
  const TestTensor zeros = Zeros(DType::kBFloat16, {kMany});
  const TestTensor lr = Values(DType::kFloat32, {}, {-0x1p-8}), t = Values(DType::kInt32, {}, {1});
  const TestTensor rng = Values(DType::kInt32, {2}, {1, 2});
  Attributes attributes = AdamWAttributes();
  attributes.Set("weight_decay", 0.0);
  const auto out = RunOp(
      "adamw", {&p, &g, &zeros, &zeros, &lr, &t, nullptr, nullptr, nullptr, nullptr, nullptr, &rng},
      attributes);
  std::vector<double> means(3), ups[3];
  for (int k = 0; k < 3; ++k) {
    for (int64_t i = 0; i < kMany; ++i) means[k] += out[k].at(i) / kMany;
    for (int64_t i = 0; i < kMany; ++i) ups[k].push_back(out[k].at(i) > means[k] ? 1 : -1);
  }
  EXPECT_NEAR(means[0], 1 + 0x1p-8, 1e-4);
  EXPECT_NEAR(means[1], 0.1, 1e-5);
  EXPECT_NEAR(means[2], 0.05, 1e-5);
  for (auto [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
    double mean_a = 0, mean_b = 0, both = 0;
    for (int64_t i = 0; i < kMany; ++i) {
      mean_a += ups[a][i] / kMany;
      mean_b += ups[b][i] / kMany;
      both += ups[a][i] * ups[b][i] / kMany;
    }
    EXPECT_NEAR(both - mean_a * mean_b, 0, 5 / std::sqrt(kMany)) << a << " and " << b;
  }
}

// Moments of 16 and 8 bits stay near float32's along a trajectory, and so do the weights.
TEST(Optimizer, NarrowMomentsFollowFloat32) {
  AdamWState whole = WithMoments(NormalValues(DType::kFloat32, {kN}, 1), DType::kFloat32);
  AdamWState bf16 = WithMoments(NormalValues(DType::kFloat32, {kN}, 1), DType::kBFloat16);
  AdamWState codes = WithMoments(NormalValues(DType::kFloat32, {kN}, 1), DType::kUInt8);
  for (int step = 1; step <= 20; ++step) {
    const TestTensor gradient = NormalValues(DType::kFloat32, {kN}, 100 + step);
    whole.Step(gradient, step);
    bf16.Step(gradient, step);
    codes.Step(gradient, step);
  }
  const TestTensor start = NormalValues(DType::kFloat32, {kN}, 1);
  double moved = 0, bf16_error = 0, codes_error = 0;
  for (int64_t i = 0; i < kN; ++i) {
    moved += std::pow(whole.p.at(i) - start.at(i), 2);
    bf16_error += std::pow(bf16.p.at(i) - whole.p.at(i), 2);
    codes_error += std::pow(codes.p.at(i) - whole.p.at(i), 2);
  }
  EXPECT_LT(std::sqrt(bf16_error / moved), 0.01);
  EXPECT_LT(std::sqrt(codes_error / moved), 0.05);
  EXPECT_GT(bf16_error, 0);
  EXPECT_GT(codes_error, 0);
}

double BytesOf(const std::string& op, const std::vector<TensorType>& types,
               const Attributes& attributes) {
  const graph::OpDef& def = graph::OpRegistry::Get().Require(op);
  std::vector<const TensorType*> inputs, outputs;
  for (const TensorType& type : types) {
    inputs.push_back(type.shape.elements() == 0 ? nullptr : &type);
  }
  const auto inferred = def.infer({def, inputs, {}, attributes});
  for (const TensorType& type : inferred) outputs.push_back(&type);
  return graph::CostOf({def, inputs, outputs, attributes}).bytes;
}

// Bytes per parameter that are read and written, in the stored types.
TEST(Optimizer, CostCountsBytesAsStored) {
  constexpr int64_t n = 1 << 20;
  const TensorType f32{DType::kFloat32, {n}}, bf16{DType::kBFloat16, {n}};
  const TensorType f16{DType::kFloat16, {n}}, i16{DType::kInt16, {n}}, u8{DType::kUInt8, {n}};
  const TensorType lr{DType::kFloat32, {}}, count{DType::kInt32, {}}, none{DType::kFloat32, {0}};
  const TensorType scales{DType::kFloat32, ScalesShape({n})}, rng{DType::kInt32, {2}};
  auto per_parameter = [&](const TensorType& p, const TensorType& moment, const TensorType& master,
                           const TensorType& scale) {
    return BytesOf("adamw",
                   {p, f32, moment, moment, lr, count, none, none, master, scale, scale, rng},
                   AdamWAttributes()) /
           n;
  };
  const double tiny = 1e-4;
  EXPECT_NEAR(per_parameter(f32, f32, none, none), 28, tiny);
  EXPECT_NEAR(per_parameter(bf16, f32, i16, none), 28, tiny);
  EXPECT_NEAR(per_parameter(f16, f32, f32, none), 4 + 16 + 8 + 2, tiny);  // p only written
  EXPECT_NEAR(per_parameter(bf16, bf16, none, none), 4 + 8 + 4, tiny);
  EXPECT_NEAR(per_parameter(bf16, u8, i16, scales), 4 + 4 + 8 + 4 * 4.0 / kStateBlock, tiny);
}

TEST(Optimizer, RefusesStorageThatMeansNothing) {
  const TestTensor f32 = Zeros(DType::kFloat32, {kN}), f16 = Zeros(DType::kFloat16, {kN});
  const TestTensor bf16 = Zeros(DType::kBFloat16, {kN}), i16 = Zeros(DType::kInt16, {kN});
  const TestTensor u8 = Zeros(DType::kUInt8, {kN}), lr = Values(DType::kFloat32, {}, {1});
  const Attributes attributes = {{"momentum", 0.9}, {"nesterov", false}, {"weight_decay", 0.0}};
  auto sgd = [&](const TestTensor& p, const TestTensor& g, const TestTensor& momentum,
                 const TestTensor* master) {
    RunOp("sgd", {&p, &g, &momentum, &lr, nullptr, nullptr, master}, attributes);
  };
  EXPECT_NO_THROW(sgd(f16, f32, f32, &f32));
  EXPECT_THROW(sgd(f16, f32, f32, nullptr), InternalError);   // loses every small update
  EXPECT_THROW(sgd(bf16, f32, f32, nullptr), InternalError);  // no random bits
  EXPECT_THROW(sgd(f16, f32, f32, &i16), InternalError);
  EXPECT_THROW(sgd(f32, f32, f32, &f32), InternalError);
  EXPECT_NO_THROW(sgd(bf16, bf16, f32, &i16));
  EXPECT_THROW(sgd(f16, f16, f32, &f32), InternalError);    // gradients overflow in f16
  EXPECT_THROW(sgd(f32, f32, u8, nullptr), InternalError);  // no scales
  EXPECT_THROW(sgd(f32, f32, bf16, nullptr), InternalError);
}

}  // namespace
}  // namespace plimsoll::ops
