// The order in which stages run their micro-batches: 1F1B, what proves it, and how long it takes.
#include "trainer/step/stage_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/cut_stage.h"
#include "tests/support/expect_error.h"

namespace plimsoll::trainer {
namespace {

std::vector<StageList> ListsOf(int64_t stages, int64_t micro_batches) {
  std::vector<StageList> lists;
  for (int64_t stage = 0; stage < stages; ++stage) {
    lists.push_back(OneForwardOneBackward(stages, stage, micro_batches));
  }
  return lists;
}

// "F0/0 F1/1 B0/0 …": the micro-batch and its slot; M: both passes; U: the update.
std::string TextOf(const StageList& list) {
  std::string text;
  for (const StageRun& run : list) {
    text += text.empty() ? "" : " ";
    text += "MFBU"[static_cast<size_t>(run.action)];
    if (run.action == StepAction::kUpdate) continue;
    text += std::to_string(run.micro_batch) + "/" + std::to_string(run.slot);
  }
  return text;
}

TEST(StageSchedule, RunsOneForwardOneBackward) {
  const std::vector<StageList> lists = ListsOf(3, 4);
  EXPECT_EQ(TextOf(lists[0]), "F0/0 F1/1 F2/2 B0/0 F3/0 B1/1 B2/2 B3/0 U");
  EXPECT_EQ(TextOf(lists[1]), "F0/0 F1/1 B0/0 F2/0 B1/1 F3/1 B2/0 B3/1 U");
  EXPECT_EQ(TextOf(lists[2]), "M0/0 M1/0 M2/0 M3/0 U");
  EXPECT_EQ(TextOf(OneForwardOneBackward(4, 0, 2)), "F0/0 F1/1 B0/0 B1/1 U");
  EXPECT_EQ(TextOf(OneForwardOneBackward(1, 0, 2)), "M0/0 M1/0 U");
}

TEST(StageSchedule, IsProvedForAnyNumbers) {
  for (int64_t stages = 1; stages <= 8; ++stages) {
    for (int64_t micro_batches = 1; micro_batches <= 20; ++micro_batches) {
      const ScheduleProof proof = ProveSchedule(ListsOf(stages, micro_batches), micro_batches);
      EXPECT_EQ(proof.transfers, 2 * (stages - 1) * micro_batches);
      for (int64_t stage = 0; stage < stages; ++stage) {
        EXPECT_EQ(proof.most_in_flight[static_cast<size_t>(stage)],
                  std::min(stages - stage, micro_batches));
      }
    }
  }
}

std::string WhyNot(const std::vector<StageList>& lists, int64_t micro_batches) {
  return MessageOf<InternalError>([&] { ProveSchedule(lists, micro_batches); }).value_or("proved");
}

TEST(StageSchedule, NamesWhatIsWrong) {
  std::vector<StageList> lists = ListsOf(3, 4);
  std::swap(lists[0][3], lists[0][4]);  // F3 before B0
  EXPECT_EQ(WhyNot(lists, 4),
            "stage 0, forward of micro-batch 3 in slot 0: the slot still has micro-batch 0");
  lists = ListsOf(3, 4);
  std::swap(lists[0][0].slot, lists[0][1].slot);
  EXPECT_EQ(WhyNot(lists, 4),
            "stage 0, backward of micro-batch 0 in slot 0: the slot has micro-batch 1");
  lists = ListsOf(3, 4);
  lists[1].erase(lists[1].begin() + 2);
  EXPECT_EQ(WhyNot(lists, 4),
            "stage 1, forward of micro-batch 2 in slot 0: the slot still has micro-batch 0");
  lists = ListsOf(3, 4);
  lists[1][2].sends = {};
  EXPECT_EQ(WhyNot(lists, 4),
            "stage 1, backward of micro-batch 0 in slot 0: it sends '', not 'stage.in.grad'");
  // Both in order by themselves: stage 0 waits for a gradient that stage 1 makes of what stage 0
  // would send afterwards.
  lists = ListsOf(2, 4);
  lists[0] = {lists[0][0], lists[0][2], lists[0][1], lists[0][4], lists[0][3],
              lists[0][6], lists[0][5], lists[0][7], lists[0][8]};
  EXPECT_EQ(TextOf(lists[0]), "F0/0 B0/0 F1/1 B1/1 F2/0 B2/0 F3/1 B3/1 U");
  EXPECT_EQ(WhyNot(lists, 4), "proved");
  std::swap(lists[1][0], lists[1][1]);
  EXPECT_EQ(WhyNot(lists, 4),
            "stage 1, forward and backward of micro-batch 1 in slot 0: micro-batch 0 is next");
}

// A run that is left out or runs twice, two slots that are exchanged, and two runs: but a backward
// pass may come before the forward pass that it would follow, since it frees a slot.
TEST(StageSchedule, RefusesMutations) {
  for (int64_t stages = 2; stages <= 4; ++stages) {
    for (int64_t micro_batches = 2; micro_batches <= 6; ++micro_batches) {
      const std::vector<StageList> lists = ListsOf(stages, micro_batches);
      for (size_t stage = 0; stage < lists.size(); ++stage) {
        std::vector<StageList> changed = lists;
        StageList& list = changed[stage];
        const auto number = static_cast<int64_t>(stage);
        const bool fewer = SlotsOfStage(stages, number + 1, micro_batches) <
                           SlotsOfStage(stages, number, micro_batches);
        const auto proved = [&] { return WhyNot(changed, micro_batches) == "proved"; };
        for (size_t i = 0; i < lists[stage].size(); ++i) {
          SCOPED_TRACE(testing::Message() << TextOf(lists[stage]) << ", run " << i);
          list.erase(list.begin() + static_cast<ptrdiff_t>(i));
          EXPECT_FALSE(proved());
          list = lists[stage];
          list.insert(list.begin() + static_cast<ptrdiff_t>(i), list[i]);
          EXPECT_FALSE(proved());
          list = lists[stage];
          if (i + 1 == list.size()) continue;
          const bool frees = list[i].action == StepAction::kForward &&
                             list[i + 1].action == StepAction::kBackward &&
                             list[i].micro_batch != list[i + 1].micro_batch;
          std::swap(list[i], list[i + 1]);
          // The next stage must not wait for that forward pass before it gives the gradient.
          EXPECT_EQ(proved(), frees && fewer);
          list = lists[stage];
          if (list[i].slot == list[i + 1].slot) continue;
          std::swap(list[i].slot, list[i + 1].slot);
          EXPECT_EQ(proved(), list[i + 1].action == StepAction::kUpdate);
          list = lists[stage];
        }
      }
    }
  }
}

TEST(StageSchedule, TakesTheBubblesTime) {
  for (int64_t stages = 1; stages <= 6; ++stages) {
    for (int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      const std::vector<StageSeconds> seconds(static_cast<size_t>(stages),
                                              {.forward = 1, .backward = 2});
      std::vector<StageSeconds> of = seconds;
      of.back().backward = 3;  // both passes
      const StepTimeline timeline = TimelineOf(ListsOf(stages, micro_batches), of);
      EXPECT_DOUBLE_EQ(timeline.seconds, 3.0 * static_cast<double>(micro_batches + stages - 1));
      for (const double idle : timeline.idle) {
        EXPECT_NEAR(idle, BubbleOf(stages, micro_batches), 1e-12);
      }
    }
  }
  const std::vector<StageSeconds> uneven = {
      {.forward = 1, .backward = 1, .update = 5, .send = 0.5},
      {.forward = 0, .backward = 4, .update = 1, .send = 0.5}};
  // F0 until 1, arrives at 1.5; two micro-batches until 9.5, whose gradient arrives at 10; B1 until
  // 11, then the update.
  EXPECT_DOUBLE_EQ(TimelineOf(ListsOf(2, 2), uneven).seconds, 16);
}

}  // namespace
}  // namespace plimsoll::trainer
