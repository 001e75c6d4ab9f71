// The memory that each stage of ZeRO saves on a rank: the persistent bytes, by role. And the bytes
// that ranks gather.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/axes.h"
#include "memory/interconnect.h"
#include "models/model.h"
#include "ops/collectives/collective.h"
#include "parallel/zero_shards.h"
#include "tests/models/published.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {
namespace {

using graph::Role;

constexpr int64_t kRanks = 4;

std::map<Role, int64_t> PersistentBytes(const models::Model& model, int64_t zero) {
  CompileOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.accumulate = 3;
  options.mesh = Mesh({DataAxis(kRanks)});
  options.zero = zero;
  options.evaluate = true;
  options.amp.dtype = graph::DType::kBFloat16;
  std::map<Role, int64_t> bytes;
  for (const memory::PersistentTensor& tensor : Compile(model, options).plan.persistent) {
    bytes[tensor.role] += tensor.type.bytes();
  }
  return bytes;
}

// Divided elements count by the rank's part of them.
TEST(ZeroMemory, EachStageDividesMore) {
  const auto model = models::MakeModel(models::Gpt2Spec(2, 32, 2, 96, 16));
  int64_t all = 0, part = 0;
  for (const models::ParameterInfo& parameter : model->parameters()) {
    const int64_t n = parameter.shape.elements();
    all += n;
    part += parallel::IsDivided(parameter.shape, kRanks) ? n / kRanks : n;
  }
  ASSERT_LT(part, all / 3);
  ASSERT_GT(part, all / kRanks);  // something stays whole
  constexpr int64_t kCounter = 4;
  struct Stage {
    int64_t parameters, gradients, state;  // elements on a rank
  };
  const std::array<Stage, 4> stages = {
      Stage{all, all, all}, {all, all, part}, {all, part, part}, {part, part, part}};
  std::map<Role, int64_t> none;
  for (int64_t zero = 0; zero < 4; ++zero) {
    SCOPED_TRACE(zero);
    std::map<Role, int64_t> bytes = PersistentBytes(*model, zero);
    const Stage& stage = stages[static_cast<size_t>(zero)];
    EXPECT_EQ(bytes[Role::kGradient], 4 * stage.gradients);
    EXPECT_EQ(bytes[Role::kOptimizerState], 8 * stage.state + kCounter);
    if (zero == 0) none = bytes;
    // Some parameters are bf16 with a remainder, others float32: the float32 ones, which the policy
    // chooses, are all too small to be divided.
    const int64_t low = none[Role::kMaster] / 2, saved = all - stage.parameters;
    EXPECT_EQ(bytes[Role::kParameter], none[Role::kParameter] - 2 * saved);
    EXPECT_EQ(bytes[Role::kMaster], 2 * (low - (all - stage.state)));
  }
}

// The bytes of parameters that a step's programs gather along the data axis, as plans time them, by
// whether they are 8-bit codes.
std::map<bool, double> GatheredBytes(const models::Model& model, bool codes, bool reshard) {
  CompileOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.mesh = Mesh({DataAxis(2)});
  options.zero = 3;
  options.amp.dtype = graph::DType::kBFloat16;
  options.amp.fp8.enabled = true;
  options.checkpointing.reshard = reshard;
  if (!codes) options.without = {"gather_codes"};
  std::map<bool, double> bytes;
  const CompiledStep compiled = Compile(model, options);
  for (const StepEntry& entry : compiled.step.entries) {
    const graph::Program& program = *compiled.programs[entry.program];
    for (const graph::Node& node : program.nodes()) {
      if (!ops::GathersParameter(program, node)) continue;
      const graph::Program::Call call = program.CallOf(node);
      const memory::AxisTraffic traffic = memory::TrafficOf(call.get(), options.mesh);
      bytes[graph::IsFloat8(call.get().input(0).dtype)] +=
          traffic.all_gather * static_cast<double>(entry.times);
    }
  }
  return bytes;
}

TEST(ZeroMemory, CodesAreHalfOfWhatIsGathered) {
  const auto model = models::MakeModel(models::Gpt2Spec(2, 32, 2, 96, 16));
  for (const bool reshard : {false, true}) {
    std::map<bool, double> numbers = GatheredBytes(*model, /*codes=*/false, reshard);
    std::map<bool, double> codes = GatheredBytes(*model, /*codes=*/true, reshard);
    EXPECT_EQ(numbers[true], 0);
    EXPECT_GE(codes[true], 2 * 12 * 32 * 32);  // of two blocks' layers
    EXPECT_EQ(numbers[false] - codes[false], 2 * codes[true]);
  }
}

}  // namespace
}  // namespace plimsoll::trainer
