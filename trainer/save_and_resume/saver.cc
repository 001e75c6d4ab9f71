#include "trainer/save_and_resume/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/message.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/save_snapshot.h"

namespace plimsoll::trainer {
namespace {

constexpr char kGivenUp[] = "it is of a step that failed";

}  // namespace

Saver::Saver(const config::RunConfig& config, Session& session, Ranks& ranks,
             RunDirectory& directory, Says says)
    : config_(config),
      session_(session),
      ranks_(ranks),
      directory_(directory),
      says_(std::move(says)),
      folder_(SnapshotsOf(config.run.dir)) {}

Saver::~Saver() { given_up_ = true; }

void Saver::Begin(int64_t done, const RunRecord& record) {
  Finish();
  under_way_.emplace(UnderWay{.step = done, .record = record});
  const std::string problem = ranks_.FirstProblem([&] {
    if (!ranks_.first()) return;
    if (!recovered_) folder_.Recover();
    recovered_ = true;
    folder_.Begin(done);
  });
  if (!problem.empty()) return Failed(problem);
  if (session_.copies_state()) session_.CopyState();
  Do([this] { WriteShard(); });
  if (!config_.save.async) Finish();
}

void Saver::Learn(int64_t done, const DivergenceState& state) {
  if (under_way_ && under_way_->step == done) under_way_->record.divergence = state;
}

void Saver::GoOn(int64_t reported) {
  if (!under_way_ || reported < under_way_->step) return;
  const bool busy = work_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  if (!ranks_.Any(busy)) EndWork();
}

void Saver::Finish() {
  while (under_way_) EndWork();
}

void Saver::GiveUp() {
  if (!under_way_) return;
  given_up_ = true;
  EndWork();
  given_up_ = false;
}

void Saver::GoBackTo(int64_t step) {
  saved_at_ = step;
  const std::string problem = ranks_.FirstProblem([&] {
    if (ranks_.first()) folder_.Prune(step, {});
  });
  if (!problem.empty() && ranks_.first()) PrintWarning(problem);
}

void Saver::Do(std::function<void()> work) {
  work_ =
      std::async(config_.save.async ? std::launch::async : std::launch::deferred, std::move(work));
}

// Waits for a piece of work on all ranks, and begins the next piece.
void Saver::EndWork() {
  UnderWay& snapshot = *under_way_;
  const std::string problem = ranks_.FirstProblem([&] {
    work_.get();
    if (given_up_) throw UserError(kGivenUp);
    if (!snapshot.shards_written) directory_.SyncLines();
  });
  if (!problem.empty()) return Failed(problem);
  if (!std::exchange(snapshot.shards_written, true)) {
    const std::vector<std::string> shards = ranks_.Gather(snapshot.told);
    return Do([this, shards] { Publish(shards); });
  }
  saved_at_ = snapshot.step;
  if (ranks_.first()) {
    const double seconds = std::chrono::duration<double>(Clock::now() - snapshot.start).count();
    std::string text = fmt::format(
        "snapshot after {} written to {} in {}", Counted(snapshot.step, "step"),
        folder_.PathOf(snapshot.step),
        seconds < 1 ? fmt::format("{:.0f} ms", 1e3 * seconds) : fmt::format("{:.1f} s", seconds));
    if (snapshot.next_step_took) {
      text += fmt::format(", while training went on; the next step took {:.0f} ms longer",
                          1e3 * *snapshot.next_step_took);
    }
    says_.line(text);
  }
  under_way_.reset();
}

void Saver::Failed(const std::string& reason) {
  const int64_t step = under_way_->step;
  under_way_.reset();
  if (ranks_.first()) folder_.Abandon(step);
  const std::string problem =
      fmt::format("no snapshot of step {}: {}; those that are there stay", step, reason);
  if (config_.save.on_error == config::OnSaveError::kStop && !given_up_) {
    throw UserError(problem + " (save.on_error: stop)", ExitCode::kInternal);
  }
  if (ranks_.first()) PrintWarning(problem);
}

void Saver::StepTook(int64_t done, double seconds) {
  if (under_way_ && under_way_->step == done && usual_seconds_) {
    under_way_->next_step_took = std::max(0.0, seconds - *usual_seconds_);
  } else if (!under_way_) {
    usual_seconds_ = usual_seconds_ ? 0.9 * *usual_seconds_ + 0.1 * seconds : seconds;
  }
}

void Saver::WriteShard() {
  if (session_.copies_state()) session_.AwaitCopy();
  under_way_->told =
      trainer::WriteShard(folder_.PartialOf(under_way_->step), session_, ranks_, [this] {
        if (given_up_) throw UserError(kGivenUp);
        says_.progressed();
      });
}

void Saver::Publish(const std::vector<std::string>& shards) {
  if (!ranks_.first()) return;
  const UnderWay& snapshot = *under_way_;
  folder_.Finish(ManifestOf(shards, snapshot.step, ToJson(snapshot.record), ranks_));
  folder_.Publish(snapshot.step);
  Prune();
}

void Saver::Prune() const {
  const UnderWay& snapshot = *under_way_;
  snapshots::Retention retention{.newest = config_.save.keep, .every = config_.save.keep_every};
  if (config_.save.best) retention.best = snapshot.record.evaluation.best_step;
  try {
    folder_.Prune(snapshot.step, retention);
  } catch (const UserError& problem) {
    PrintWarning(problem.what());
  }
}

}  // namespace plimsoll::trainer
