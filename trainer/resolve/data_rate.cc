#include "trainer/resolve/data_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "base/error.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kMostSamples = 256;
constexpr double kMostSeconds = 0.2;
// Waiting times below this fraction of the training time are not reported.
constexpr double kNoticedShare = 0.1;
constexpr int64_t kMostWorkers = 256;  // the limit of the setting "workers"

double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The rate of `workers` threads. A thread that waits for files leaves its core to other threads.
double Prepared(const DataRate& rate, int64_t workers, int cores) {
  const double threads = static_cast<double>(workers) / rate.seconds;
  if (rate.processor_seconds <= 0) return threads;
  return std::min(threads, cores / rate.processor_seconds);
}

// The fewest workers with which steps don't wait, or the most workers that fit on the idle cores.
// Returns 0 if that is not more than the present number of workers.
int64_t MoreWorkers(const DataRate& rate, const DataSpeed& speed, int cores) {
  // The fraction of a core that a thread uses.
  const double busy = rate.processor_seconds / rate.seconds;
  const double carried = busy > 0 ? (cores - 1) / busy : static_cast<double>(kMostWorkers);
  const double wanted = std::ceil(speed.step / speed.thread);
  const auto most = static_cast<int64_t>(std::min({wanted, carried, double{kMostWorkers}}));
  return most > speed.workers ? most : 0;
}

std::string WayOut(const config::RunConfig& config, const DataRate& rate, const DataSpeed& speed,
                   int cores) {
  std::string way;
  int64_t more = MoreWorkers(rate, speed, cores);
  // Even one worker helps, because it prepares samples while the step runs.
  if (speed.workers == 0) more = std::max<int64_t>(1, more);
  if (more > 0) {
    way = fmt::format("data.workers: {} ({}/s)", more, FormatCount(Prepared(rate, more, cores)));
  }
  const std::string decoding = FasterDecoding(config);
  return way + (way.empty() || decoding.empty() ? "" : "; ") + decoding;
}

}  // namespace

std::optional<DataRate> MeasureDataRate(const data::Source& source, int64_t first,
                                        std::span<const graph::Slot> slots) {
  if (slots.empty() || slots.front().type.shape.rank() == 0) return std::nullopt;
  using Clock = std::chrono::steady_clock;
  const int64_t rows = slots.front().type.shape.dim(0);
  const int64_t end = std::min(first + kMostSamples, source.samples().value_or(INT64_MAX));
  const Clock::time_point begin = Clock::now();
  const double processor = ProcessorSeconds();
  int64_t done = 0;
  double seconds = 0, processor_seconds = 0;
  try {
    while (first + done + rows <= end && seconds < kMostSeconds) {
      source.Fill(first + done, slots);
      done += rows;
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      processor_seconds = ProcessorSeconds() - processor;
    }
  } catch (const UserError&) {  // training will report the error when it reaches this sample
  }
  if (done == 0 || seconds <= 0) return std::nullopt;
  const auto samples = static_cast<double>(done);
  return DataRate{seconds / samples, processor_seconds / samples};
}

double DataSpeed::WaitingShare() const {
  if (workers == 0) return step / (step + prepared);
  return prepared < step ? 1 - prepared / step : 0;
}

bool DataSpeed::HoldsBack() const { return WaitingShare() >= kNoticedShare; }

DataSpeed DataSpeedOf(const config::RunConfig& config, const DataRate& rate, int64_t workers,
                      int cores, double samples, double step_seconds) {
  DataSpeed speed{.thread = 1 / rate.seconds,
                  .workers = workers,
                  .prepared = Prepared(rate, std::max<int64_t>(1, workers), cores),
                  .step = samples / step_seconds};
  if (speed.HoldsBack()) speed.way_out = WayOut(config, rate, speed, cores);
  return speed;
}

std::string DataSpeedText(const DataSpeed& speed) {
  const int64_t workers = speed.workers;
  const std::string who = workers == 0 ? "between steps (data.workers: 0)"
                                       : fmt::format("{} with {}", FormatCount(speed.prepared),
                                                     Counted(workers, "worker"));
  std::string text = fmt::format("data: {} samples/s a thread, {}; the step takes {}/s",
                                 FormatCount(speed.thread), who, FormatCount(speed.step));
  if (!speed.HoldsBack()) return text;
  text += fmt::format(" and would wait {:.0f} % of the time", 100 * speed.WaitingShare());
  return speed.way_out.empty() ? text : text + ": " + speed.way_out;
}

nlohmann::ordered_json DataSpeedJson(const DataSpeed& speed) {
  return {{"thread_samples_per_s", speed.thread},
          {"workers", speed.workers},
          {"samples_per_s", speed.prepared},
          {"step_samples_per_s", speed.step},
          {"waiting_share", speed.WaitingShare()}};
}

std::string FasterDecoding(const config::RunConfig& config) {
  const Settings& settings = config.data.settings;
  const bool exact = settings.Has("decode") && settings.Text("decode") == "exact";
  return exact ? "for large JPEG files data.decode: fast" : "";
}

}  // namespace plimsoll::trainer
