#include "trainer/step/stage_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "parallel/cut_stage.h"

namespace plimsoll::trainer {
namespace {

using parallel::kStageIn;
using parallel::kStageInGrad;
using parallel::kStageOut;
using parallel::kStageOutGrad;

std::string Text(int64_t stage, const StageRun& run) {
  // Texts for the values of StepAction, in their order.
  static constexpr std::string_view kActions[] = {"forward and backward of", "forward of",
                                                  "backward of", "update after"};
  return fmt::format("stage {}, {} micro-batch {} in slot {}", stage,
                     kActions[static_cast<size_t>(run.action)], run.micro_batch, run.slot);
}

// The sender's name of a received tensor. Sender and receiver name the tensor differently.
std::string_view SentAs(std::string_view received) {
  if (received == kStageIn) return kStageOut;
  if (received == kStageOutGrad) return kStageInGrad;
  throw InternalError(fmt::format("a stage receives '{}'", received));
}

// The neighbour from which a stage receives the tensor.
int64_t SenderOf(int64_t stage, std::string_view received) {
  return received == kStageIn ? stage - 1 : stage + 1;
}

// Checks the list of one stage, and tracks which micro-batch each of the stage's slots holds.
class StageProver {
 public:
  StageProver(int64_t stage, int64_t stages, int64_t micro_batches)
      : stage_(stage), stages_(stages), micro_batches_(micro_batches) {}

  // Returns the most micro-batches in flight.
  int64_t Check(const StageList& list) {
    for (const StageRun& run : list) CheckRun(run);
    if (!updated_) throw InternalError(fmt::format("stage {} has no update", stage_));
    return most_;
  }

 private:
  [[noreturn]] void Fail(const StageRun& run, const std::string& why) const {
    throw InternalError(fmt::format("{}: {}", Text(stage_, run), why));
  }

  void CheckRun(const StageRun& run) {
    if (updated_) Fail(run, "the update comes before it");
    CheckTransfers(run);
    switch (run.action) {
      case StepAction::kMicroStep:
        if (stage_ + 1 < stages_) Fail(run, "only the last stage has all of it");
        Begin(run);
        End(run);
        break;
      case StepAction::kForward:
        Begin(run);
        break;
      case StepAction::kBackward:
        End(run);
        break;
      case StepAction::kUpdate:
        if (ended_ < micro_batches_) {
          Fail(run, fmt::format("{} of {} micro-batches are through", ended_, micro_batches_));
        }
        updated_ = true;
        break;
    }
  }

  void Begin(const StageRun& run) {
    if (run.micro_batch != begun_) Fail(run, fmt::format("micro-batch {} is next", begun_));
    if (begun_ == micro_batches_) Fail(run, "there are no more");
    const auto [held, fresh] = slots_.try_emplace(run.slot, run.micro_batch);
    if (!fresh) Fail(run, fmt::format("the slot still has micro-batch {}", held->second));
    ++begun_;
    most_ = std::max(most_, std::ssize(slots_));
    if (std::ssize(slots_) > stages_ - stage_) {
      Fail(run, fmt::format("{} micro-batches are in flight", slots_.size()));
    }
  }

  void End(const StageRun& run) {
    const auto held = slots_.find(run.slot);
    if (held == slots_.end()) Fail(run, "the slot is empty");
    if (held->second != run.micro_batch) {
      Fail(run, fmt::format("the slot has micro-batch {}", held->second));
    }
    if (run.micro_batch != ended_) Fail(run, fmt::format("micro-batch {} is next", ended_));
    slots_.erase(held);
    ++ended_;
  }

  void CheckTransfers(const StageRun& run) const {
    const bool first = stage_ == 0, last = stage_ + 1 == stages_;
    const bool forward = run.action == StepAction::kForward;
    std::string_view receives = first ? "" : kStageIn;
    std::string_view sends = forward ? (last ? "" : kStageOut) : first ? "" : kStageInGrad;
    if (run.action == StepAction::kBackward) receives = last ? "" : kStageOutGrad;
    if (run.action == StepAction::kUpdate) receives = sends = "";
    if (run.receives != receives) {
      Fail(run, fmt::format("it receives '{}', not '{}'", run.receives, receives));
    }
    if (run.sends != sends) Fail(run, fmt::format("it sends '{}', not '{}'", run.sends, sends));
  }

  const int64_t stage_, stages_, micro_batches_;
  std::map<int64_t, int64_t> slots_;  // maps a slot to the micro-batch that it holds
  int64_t begun_ = 0, ended_ = 0, most_ = 0;
  bool updated_ = false;
};

// Runs the lists of all stages as far as they can proceed. A message waits at its sender until its
// receiver waits for it.
class Rendezvous {
 public:
  explicit Rendezvous(std::span<const StageList> stages)
      : stages_(stages), next_(stages.size(), 0), sent_(stages.size()) {}

  // Calls ran(stage, run) for each run as the run executes. Returns the number of transfers.
  template <typename Ran>
  int64_t Run(Ran ran) {
    for (bool any = true; any;) {
      any = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage) {
        while (next_[stage] < stages_[stage].size() && CanRun(stage)) {
          const StageRun& run = stages_[stage][next_[stage]++];
          ran(stage, run);
          if (!run.sends.empty()) sent_[stage].push_back(&run);
          any = true;
        }
      }
    }
    CheckEnds();
    return transfers_;
  }

 private:
  bool CanRun(size_t stage) {
    const StageRun& run = stages_[stage][next_[stage]];
    if (run.action == StepAction::kUpdate) return AllUpdate();
    if (WaitsToBeSent(stage, run)) return false;
    if (run.receives.empty()) return true;
    if (WaitsForDirection(stage, run)) return false;
    const auto from = static_cast<size_t>(SenderOf(static_cast<int64_t>(stage), run.receives));
    std::deque<const StageRun*>& messages = sent_.at(from);
    const std::string_view as = SentAs(run.receives);
    const auto message = std::ranges::find(messages, as, &StageRun::sends);
    if (message == messages.end()) return false;
    if ((*message)->micro_batch != run.micro_batch) {
      throw InternalError(fmt::format("{}: it receives '{}' of micro-batch {}",
                                      Text(static_cast<int64_t>(stage), run), run.receives,
                                      (*message)->micro_batch));
    }
    messages.erase(message);
    ++transfers_;
    return true;
  }

  // Updates of all stages run together, because they exchange norms and metrics.
  bool AllUpdate() const {
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      if (next_[stage] == stages_[stage].size()) continue;
      if (stages_[stage][next_[stage]].action != StepAction::kUpdate) return false;
    }
    return true;
  }

  // Whether the run would overwrite a tensor that is still to be sent.
  bool WaitsToBeSent(size_t stage, const StageRun& run) const {
    return !run.sends.empty() && std::ranges::any_of(sent_[stage], [&](const StageRun* message) {
      return message->sends == run.sends && message->slot == run.slot;
    });
  }

  // Whether the stage's previous message in the same direction is still in flight. One stream
  // handles both messages.
  bool WaitsForDirection(size_t stage, const StageRun& run) const {
    return std::ranges::find(sent_[stage], SentAs(run.receives), &StageRun::sends) !=
           sent_[stage].end();
  }

  void CheckEnds() const {
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      const auto number = static_cast<int64_t>(stage);
      if (next_[stage] < stages_[stage].size()) {
        throw InternalError(Text(number, stages_[stage][next_[stage]]) + " waits for ever");
      }
      if (!sent_[stage].empty()) {
        throw InternalError(fmt::format("{}: nobody receives its '{}'",
                                        Text(number, *sent_[stage].front()),
                                        sent_[stage].front()->sends));
      }
    }
  }

  const std::span<const StageList> stages_;
  std::vector<size_t> next_;  // for each stage, the index of its next run
  // For each stage, the runs whose messages wait for their receivers, in order.
  std::vector<std::deque<const StageRun*>> sent_;
  int64_t transfers_ = 0;
};

}  // namespace

int64_t SlotsOfStage(int64_t stages, int64_t stage, int64_t micro_batches) {
  return std::min(stages - stage, micro_batches);
}

StageList OneForwardOneBackward(int64_t stages, int64_t stage, int64_t micro_batches) {
  const bool first = stage == 0, last = stage + 1 == stages;
  const int64_t slots = SlotsOfStage(stages, stage, micro_batches);
  StageList list;
  const auto add = [&](StepAction action, int64_t micro_batch) {
    StageRun& run = list.emplace_back(
        StageRun{.action = action, .micro_batch = micro_batch, .slot = micro_batch % slots});
    if (action == StepAction::kBackward) {
      run.receives = kStageOutGrad;
    } else if (!first) {
      run.receives = kStageIn;
    }
    if (action == StepAction::kForward) {
      run.sends = kStageOut;
    } else if (!first) {
      run.sends = kStageInGrad;
    }
  };
  if (last) {
    for (int64_t i = 0; i < micro_batches; ++i) add(StepAction::kMicroStep, i);
  } else {
    // The forward passes before the first backward pass fill all slots.
    for (int64_t i = 0; i < slots; ++i) add(StepAction::kForward, i);
    for (int64_t i = 0; i < micro_batches; ++i) {
      add(StepAction::kBackward, i);
      if (i + slots < micro_batches) add(StepAction::kForward, i + slots);
    }
  }
  list.push_back({.action = StepAction::kUpdate,
                  .micro_batch = micro_batches - 1,
                  .slot = (micro_batches - 1) % slots});
  return list;
}

ScheduleProof ProveSchedule(std::span<const StageList> stages, int64_t micro_batches) {
  ScheduleProof proof;
  const int64_t count = std::ssize(stages);
  for (int64_t stage = 0; stage < count; ++stage) {
    proof.most_in_flight.push_back(
        StageProver(stage, count, micro_batches).Check(stages[static_cast<size_t>(stage)]));
  }
  proof.transfers = Rendezvous(stages).Run([](size_t, const StageRun&) {});
  return proof;
}

StepTimeline TimelineOf(std::span<const StageList> stages, std::span<const StageSeconds> seconds) {
  std::vector<double> ends(stages.size(), 0), busy(stages.size(), 0);
  // Maps a message's sender, the sender's tensor name and the micro-batch to the message's arrival
  // time.
  std::map<std::tuple<size_t, std::string_view, int64_t>, double> arrives;
  double updates = 0;  // the time when updates begin
  Rendezvous(stages).Run([&](size_t stage, const StageRun& run) {
    const StageSeconds& of = seconds[stage];
    double begin = ends[stage];
    if (!run.receives.empty()) {
      const auto from = static_cast<size_t>(SenderOf(static_cast<int64_t>(stage), run.receives));
      begin = std::max(begin, arrives.at({from, SentAs(run.receives), run.micro_batch}));
    }
    if (run.action == StepAction::kUpdate) {
      if (updates == 0) updates = std::ranges::max(ends);
      begin = std::max(begin, updates);
    }
    const double takes = run.action == StepAction::kForward  ? of.forward
                         : run.action == StepAction::kUpdate ? of.update
                                                             : of.backward;
    ends[stage] = begin + takes;
    busy[stage] += takes;
    if (!run.sends.empty()) arrives[{stage, run.sends, run.micro_batch}] = ends[stage] + of.send;
  });
  StepTimeline timeline{.seconds = std::ranges::max(ends), .idle = {}};
  for (const double of_stage : busy) {
    timeline.idle.push_back(timeline.seconds > 0 ? 1 - of_stage / timeline.seconds : 0);
  }
  return timeline;
}

double BubbleOf(int64_t stages, int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

}  // namespace plimsoll::trainer
