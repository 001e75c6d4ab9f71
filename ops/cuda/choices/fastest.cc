#include "ops/cuda/choices/fastest.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

constexpr int kRounds = 7;
// A timing contains one or more calls, and takes about kTiming. Before the first timing the GPU is
// kept busy for kWarmUp, because it computes faster for a moment after a pause.
constexpr double kTiming = 300;    // µs
constexpr double kWarmUp = 30000;  // µs
constexpr int kMostCalls = 50;

class Event {
 public:
  Event() { gpu::Check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

  void Record(cudaStream_t stream) const {
    gpu::Check(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  void Await() const { gpu::Check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

 private:
  cudaEvent_t event_ = nullptr;
};

double Microseconds(const Event& begin, const Event& end) {
  float milliseconds = 0;
  gpu::Check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return 1000.0 * milliseconds;
}

void Repeat(const std::function<void()>& enqueue, int calls) {
  for (int i = 0; i < calls; ++i) enqueue();
}

}  // namespace

FastestSearch::FastestSearch(cudaStream_t stream, std::vector<ResultMemory> results)
    : stream_(stream), results_(std::move(results)) {}

TimedWay FastestSearch::Try(std::function<void()> enqueue) {
  for (const ResultMemory& result : results_) {  // some work adds to the result's old content
    gpu::Check(cudaMemsetAsync(result.data(), 0, result.size(), stream_), "cudaMemsetAsync");
  }
  enqueue();
  const uint64_t bits = HashOf(results_, stream_);
  Event begin, end;
  begin.Record(stream_);
  enqueue();
  end.Record(stream_);
  end.Await();
  works_.push_back(std::move(enqueue));
  rough_.push_back({bits, Microseconds(begin, end)});
  return rough_.back();
}

FastestSearch::Result FastestSearch::Fastest() {
  const std::vector<size_t> again = WaysToTimeAgain(rough_);
  if (again.size() == 1) return {again[0], rough_[again[0]].microseconds};
  std::vector<Work> works;
  double rough = std::numeric_limits<double>::infinity();
  for (size_t i : again) {
    works.push_back(works_[i]);
    rough = std::min(rough, rough_[i].microseconds);
  }
  const std::vector<double> times = TakeTurns(works, rough);
  std::vector<TimedWay> timed;
  for (size_t i = 0; i < again.size(); ++i) timed.push_back({rough_[again[i]].bits, times[i]});
  const size_t chosen = ChosenWay(timed, rough_[0].bits);
  return {again[chosen], timed[chosen].microseconds};
}

std::vector<double> FastestSearch::TakeTurns(const std::vector<Work>& works, double rough) const {
  const int calls = std::clamp(static_cast<int>(kTiming / rough), 1, kMostCalls);
  const int turns = static_cast<int>(kWarmUp / (rough * calls * static_cast<double>(works.size())));
  for (int turn = 0; turn < std::min(turns, 4 * kRounds); ++turn) {
    for (const Work& work : works) Repeat(work, calls);
  }
  std::vector<Event> events(kRounds * works.size() + 1);
  size_t next = 0;
  events[next++].Record(stream_);
  for (int round = 0; round < kRounds; ++round) {
    for (const Work& work : works) {
      Repeat(work, calls);
      events[next++].Record(stream_);
    }
  }
  events.back().Await();
  std::vector<double> medians;
  for (size_t i = 0; i < works.size(); ++i) {
    std::vector<double> rounds;
    for (size_t at = i; at + 1 < events.size(); at += works.size()) {
      rounds.push_back(Microseconds(events[at], events[at + 1]) / calls);
    }
    std::sort(rounds.begin(), rounds.end());
    medians.push_back(rounds[rounds.size() / 2]);
  }
  return medians;
}

}  // namespace plimsoll::ops
