// What the tensors of a stage's slots hold as its list runs: accepted as compiled, refused with
// slots, micro-batches or transfers changed.
#include "trainer/step/slot_check.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/axes.h"
#include "base/error.h"
#include "models/model.h"
#include "tests/models/published.h"
#include "tests/support/expect_error.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kStages = 4;

// Programs of a stage of four that recomputes nothing, and its list for seven micro-batches.
struct Stage {
  explicit Stage(int64_t stage) {
    models::ModelSpec spec = models::Gpt2Spec(kStages, 16, 2, 40, 8);
    spec.tied = false;
    CompileOptions options;
    options.sequence = 8;
    options.accumulate = 7;
    options.mesh = Mesh({PipelineAxis(kStages)});
    options.rank = static_cast<int>(stage);
    options.stages = std::vector<int64_t>(kStages, 1);
    const CompiledStep compiled = Compile(*models::MakeModel(spec), options);
    programs = compiled.programs;
    entries = compiled.step.entries;
    shared = UpdateInputs(compiled.objectives);
    for (const auto& program : programs) {
      for (const graph::Tensor& tensor : program->tensors()) {
        const bool kept = tensor.persistent && !tensor.alias &&
                          tensor.role == graph::Role::kActivation &&
                          tensor.name.find("stage.") == std::string::npos;
        if (kept) names.insert(tensor.name);
      }
    }
  }
  std::string WhyNot(const std::vector<StepEntry>& list) const {
    return MessageOf<InternalError>([&] { CheckSlots(programs, list, names, shared); })
        .value_or("accepted");
  }
  ProgramList programs;
  TensorNames names, shared;
  std::vector<StepEntry> entries;
};

TEST(SlotCheck, AcceptsListsOfStages) {
  for (const int64_t stage : {0, 1})
    EXPECT_EQ(Stage(stage).WhyNot(Stage(stage).entries), "accepted");
}

TEST(SlotCheck, NamesWhatIsWrong) {
  const Stage stage(1);
  std::vector<StepEntry> list = stage.entries;  // F0 F1 F2 B0 F3 …
  ASSERT_EQ(list[3].action, StepAction::kBackward);
  std::swap(list[3].micro_step, list[5].micro_step);
  EXPECT_EQ(stage.WhyNot(list),
            "slots: the backward pass of micro-batch 1 in slot 0 reads 'block.1.attn.attention' of "
            "micro-batch 0");
  list = stage.entries;
  std::swap(list[3], list[4]);
  EXPECT_EQ(stage.WhyNot(list),
            "slots: the forward pass of micro-batch 3 in slot 0 receives 'stage.in', which "
            "micro-batch 0 has yet to read");
  list = stage.entries;
  list[4].sends = {};
  EXPECT_EQ(stage.WhyNot(list),
            "slots: the forward pass of micro-batch 3 in slot 0 writes 'stage.out' while it is "
            "being sent");
  list = stage.entries;
  list[3].slot = 1;
  EXPECT_EQ(stage.WhyNot(list),
            "slots: the backward pass of micro-batch 0 in slot 1 touches 'block.1.attn.attention', "
            "of another slot");
}

TEST(SlotCheck, RefusesMutations) {
  for (const int64_t number : {0, 1}) {
    const Stage stage(number);
    for (size_t i = 0; i + 1 < stage.entries.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "stage " << number << ", run " << i);
      std::vector<StepEntry> list = stage.entries;
      list[i].receives = {};
      EXPECT_EQ(stage.WhyNot(list) == "accepted", stage.entries[i].receives.empty());
      list = stage.entries;
      if (list[i + 1].action == StepAction::kUpdate) continue;
      if (list[i].micro_step != list[i + 1].micro_step) {
        std::swap(list[i].micro_step, list[i + 1].micro_step);
        EXPECT_NE(stage.WhyNot(list), "accepted");
      }
      list = stage.entries;
      if (list[i].slot == list[i + 1].slot) continue;
      std::swap(list[i].slot, list[i + 1].slot);
      EXPECT_NE(stage.WhyNot(list), "accepted");
      if (list[i].action != list[i + 1].action) continue;
      std::swap(list[i].program, list[i + 1].program);
      EXPECT_NE(stage.WhyNot(list), "accepted");
    }
  }
}

}  // namespace
}  // namespace plimsoll::trainer
