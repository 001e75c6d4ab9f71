#include "trainer/step_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "trainer/learning_rate.h"
#include "trainer/resolve/data_rate.h"
#include "trainer/resolve/source_from.h"

namespace plimsoll::trainer {
namespace {

constexpr double kMeasuredSeconds = 10, kHeldBackShare = 0.2;

class SessionPlaces final : public data::BatchMemory {
 public:
  explicit SessionPlaces(Session& session) : session_(session) {}

  int places() const override { return session_.input_places(); }
  std::span<const Slot> slots(int place) const override { return session_.place_slots(place); }
  void Await(int place) override { session_.AwaitPlace(place); }

 private:
  Session& session_;
};

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

void StepFeed::Stop() {
  prefetcher_.reset();
  lent_.clear();
  places_.reset();
}

void StepFeed::ContinueAt(int64_t step, int64_t sample) {
  if (prefetcher_) prefetcher_->Forget();  // its threads read `draws_`
  for (size_t i = 0; i < lent_.size(); ++i) TakeBack(static_cast<int64_t>(i));
  draws_.ContinueAt(step, sample);
}

// Whether threads can prepare batches. They can if all batches have the same slots as the first
// batch.
bool StepFeed::Prefetches(Session& session, std::span<const Slot> slots) {
  if (workers_ == 0) return false;
  if (!prefetcher_) {
    reads_ = DataReads(session.compiled().step);
    const auto first_of = [this](int64_t number) {
      return draws_.First(number / reads_.count(), reads_.DrawOf(number % reads_.count()));
    };
    const int workers = static_cast<int>(workers_);
    if (session.input_places() > 0) {
      places_ = std::make_unique<SessionPlaces>(session);
      prefetcher_ = std::make_unique<data::Prefetcher>(*source_, workers, first_of, *places_);
    } else {
      prefetcher_ = std::make_unique<data::Prefetcher>(*source_, workers, first_of);
    }
    for (const Slot& slot : slots) prefetched_.push_back(slot.name);
  }
  return std::ranges::equal(slots, prefetched_, {}, &Slot::name);
}

void StepFeed::TakeBack(int64_t micro_step) {
  int& place = lent_[static_cast<size_t>(micro_step)];
  if (place != kNone) prefetcher_->GiveBack(std::exchange(place, kNone));
}

// Gives the micro-step a prepared place, and takes back the micro-step's previous place, whose runs
// are all enqueued.
void StepFeed::Lend(int64_t micro_step, int64_t number, Session& session) {
  if (micro_step >= std::ssize(lent_)) lent_.resize(static_cast<size_t>(micro_step) + 1, kNone);
  TakeBack(micro_step);
  const int place = prefetcher_->Lease(number);
  lent_[static_cast<size_t>(micro_step)] = place;
  session.ReadFrom(micro_step, place);
}

void StepFeed::FillMicroStep(int64_t micro_step, int64_t step, int64_t draw, Session& session) {
  const Clock::time_point begin = Clock::now();
  const std::span<const Slot> slots = session.slots(micro_step);
  if (slots.empty()) return;  // a pipeline stage that reads no data
  const bool prefetches = Prefetches(session, slots);
  if (prefetches && places_) {
    const double before = prefetcher_->waited_seconds();
    Lend(micro_step, step * reads_.count() + read_, session);
    fill_seconds_ += prefetcher_->waited_seconds() - before;
    return;
  }
  if (prefetches) {
    prefetcher_->Fill(step * reads_.count() + read_, slots);
  } else {
    source_->Fill(draws_.First(step, draw), slots);
  }
  session.ReadFrom(micro_step, Session::kSlots);
  fill_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
}

void StepFeed::Fill(int64_t step, const StepRun& run, Session& session) {
  if (!BeginsMicroSteps(run.action)) return;
  if (!start_) start_ = Clock::now();
  if (run.number == 0) {
    filled_.clear();
    fill_seconds_ = 0;
    read_ = 0;
    copied_before_ = session.memory().copy_seconds();
  }
  const auto end = static_cast<size_t>(run.slot + run.micro_steps);
  if (filled_.size() < end) filled_.resize(end, -1);
  for (int64_t i = 0; i < run.micro_steps; ++i) {
    // Skips slots that still hold the samples of this draw from the previous run.
    int64_t& filled = filled_[static_cast<size_t>(run.slot + i)];
    if (std::exchange(filled, run.draw + i) == run.draw + i) continue;
    FillMicroStep(run.slot + i, step, run.draw + i, session);
    ++read_;
    samples_ += draws_.batch;
  }
}

std::optional<int64_t> StepFeed::CountTokens(int64_t step) const {
  return source_->CountTokens(draws_.FirstOfStep(step), draws_.samples_per_step());
}

double StepFeed::TakeSeconds(const Session& session) {
  const double copied = session.memory().copy_seconds() - copied_before_;
  const double seconds = std::exchange(fill_seconds_, 0) + copied;
  waited_seconds_ += seconds;
  return seconds;
}

std::string StepFeed::Advice() const {
  if (prefetcher_) {
    const std::string decoding = FasterDecoding(config_);
    return fmt::format("more data.workers may help, if there are idle cores{}{}",
                       decoding.empty() ? "" : "; ", decoding);
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
      "data: {} can prepare {} samples/s, training took {}/s; {} of batches "
      "ready to be read",
      Counted(workers_, "worker"), FormatCount(samples / busy * static_cast<double>(workers_)),
      FormatCount(samples / all), FormatBytes(prefetcher_->bytes()));
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
    if (entry.micro_step > 0 || !BeginsMicroSteps(entry.action)) continue;
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
