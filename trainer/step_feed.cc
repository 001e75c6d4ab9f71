#include "trainer/step_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "trainer/learning_rate.h"
#include "trainer/settle/source_from.h"

namespace plimsoll::trainer {
namespace {

constexpr double kMeasuredSeconds = 10, kHeldBackShare = 0.2;

}  // namespace

StepFeed::StepFeed(const config::RunConfig& config, const models::Model& model,
                   const MeshPosition& position)
    : config_(config) {
  const std::vector<models::Objective> objectives = model.objectives();
  for (const models::Objective& objective : objectives) {
    own_.push_back(config.ForObjective(objective.name));
  }
  told_.resize(objectives.size());
  draws_ = DrawsFrom(config, DrawsOf(objectives, config.train.accumulate), position);
  source_ = SourceFrom(config, model, draws_);
  workers_ = DataWorkersFrom(config);
}

void StepFeed::ContinueAt(int64_t step, int64_t sample) {
  if (prefetcher_) prefetcher_->Forget();  // its threads read the draws
  draws_.ContinueAt(step, sample);
}

// Batches can be prepared where all have the slots of the first.
bool StepFeed::Prefetches(std::span<const Slot> slots) {
  if (workers_ == 0) return false;
  if (!prefetcher_) {
    prefetcher_ = std::make_unique<data::Prefetcher>(
        *source_, static_cast<int>(workers_), [this](int64_t number) {
          return draws_.First(number / draws_.per_step, number % draws_.per_step);
        });
    for (const Slot& slot : slots) prefetched_.push_back(slot.name);
  }
  return std::ranges::equal(slots, prefetched_, {}, &Slot::name);
}

void StepFeed::Fill(int64_t step, const StepRun& run, const Session& session) {
  const Clock::time_point begin = Clock::now();
  if (!start_) start_ = begin;
  if (run.number == 0) {
    filled_.assign(static_cast<size_t>(run.micro_steps), -1);
    fill_seconds_ = 0;
    copied_before_ = session.memory().copy_seconds();
  }
  for (int64_t i = 0; i < run.micro_steps; ++i) {
    // The samples that the run before has read need not be filled in again.
    int64_t& filled = filled_[static_cast<size_t>(i)];
    if (std::exchange(filled, run.draw + i) == run.draw + i) continue;
    const std::span<const Slot> slots = session.slots(i);
    const int64_t draw = run.draw + i;
    if (Prefetches(slots)) {
      prefetcher_->Fill(step * draws_.per_step + draw, slots);
    } else {
      source_->Fill(draws_.First(step, draw), slots);
    }
    samples_ += draws_.batch;
  }
  fill_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
}

double StepFeed::TakeSeconds(const Session& session) {
  const double copied = session.memory().copy_seconds() - copied_before_;
  const double seconds = std::exchange(fill_seconds_, 0) + copied;
  waited_seconds_ += seconds;
  return seconds;
}

std::string StepFeed::Advice() const {
  if (prefetcher_) {
    const Settings& settings = config_.data.settings;
    const bool exact = settings.Has("decode") && settings.Text("decode") == "exact";
    return fmt::format("more data.workers may help, if there are idle cores{}",
                       exact ? "; of large JPEG files also data.decode: fast" : "");
  }
  return HasDataWorkers(config_) ? "with data.workers threads prepare it meanwhile" : "";
}

double StepFeed::SecondsSinceStart() const {
  return start_ ? std::chrono::duration<double>(Clock::now() - *start_).count() : 0;
}

std::string StepFeed::RatesText() const {
  const double all = SecondsSinceStart(), busy = prefetcher_ ? prefetcher_->busy_seconds() : 0;
  if (busy == 0 || all == 0) return "";
  const auto samples = static_cast<double>(samples_);
  return fmt::format(
      "data: {} worker{} can prepare {} samples/s, training took {}/s; {} of batches "
      "ready to be read",
      workers_, workers_ == 1 ? "" : "s",
      FormatCount(samples / busy * static_cast<double>(workers_)), FormatCount(samples / all),
      FormatBytes(prefetcher_->bytes()));
}

std::optional<std::string> StepFeed::HeldBack() {
  const double all = SecondsSinceStart();
  if (said_held_back_ || all < kMeasuredSeconds || waited_seconds_ < kHeldBackShare * all) {
    return std::nullopt;
  }
  said_held_back_ = true;
  const std::string advice = Advice();
  return fmt::format("training waits for its data {:.0f} % of the time{}{}",
                     100 * waited_seconds_ / all, advice.empty() ? "" : "; ", advice);
}

std::optional<std::string> StepFeed::Unread() {
  if (said_unread_) return std::nullopt;
  const std::string unread = source_->Unread();
  if (unread.empty()) return std::nullopt;
  said_unread_ = true;
  return "data: " + unread;
}

std::span<const ObjectiveStep> StepFeed::Objectives(int64_t step, const CompiledStep& compiled,
                                                    const Divergence& divergence) {
  const int64_t samples = config_.train.accumulate * draws_.data_ranks * draws_.batch;
  for (ObjectiveStep& told : told_) told.targets.clear();
  for (const StepEntry& entry : compiled.step.entries) {
    if (entry.micro_step > 0) continue;
    for (const StepUpdate& update : entry.updates) {
      const auto objective = static_cast<size_t>(update.objective);
      const int64_t targets = source_->CountTargets(compiled.objectives[objective].name,
                                                    draws_.FirstOfDraw(step, entry.draw), samples);
      if (targets == 0) return {};
      told_[objective].targets.push_back(targets);
    }
  }
  for (size_t o = 0; o < told_.size(); ++o) {
    const config::RunConfig& own = own_[o];
    told_[o].lr = divergence.lr_factor() *
                  LearningRate(own.schedule, own.optimizer.lr, config_.train.steps, step);
    told_[o].loss_limit = divergence.LimitOf(step, o);
  }
  return told_;
}

}  // namespace plimsoll::trainer
