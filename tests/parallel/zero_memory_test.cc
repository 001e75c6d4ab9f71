// The memory that each stage of ZeRO saves on a rank: the persistent bytes, by role.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/axes.h"
#include "models/model.h"
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

}  // namespace
}  // namespace plimsoll::trainer
