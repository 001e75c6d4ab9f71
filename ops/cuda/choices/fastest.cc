#include "ops/cuda/choices/fastest.h"

#include <algorithm>
#include <utility>

#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

constexpr int kRounds = 7;
// A timing is of one call or more, and about this long; before the first the GPU is kept busy for
// kWarmUp, since it computes faster for a moment after a rest.
constexpr double kTiming = 300;    // µs
constexpr double kWarmUp = 30000;  // µs
constexpr int kMostCalls = 50;
// Candidates slower than the fastest by more than this factor are not timed again; the number timed
// again is limited too.
constexpr double kHopeless = 1.15;
constexpr size_t kFinalists = 12;
// A later candidate must win by more than noise, so that choices are repeatable.
constexpr double kTie = 1.01;

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

double FastestSearch::Timed::median() {
  std::sort(rounds.begin(), rounds.end());
  return rounds[rounds.size() / 2];
}

double FastestSearch::Try(std::function<void()> enqueue) {
  timed_.push_back({timed_.size(), std::move(enqueue), 0, {}});
  Timed& timed = timed_.back();
  timed.enqueue();
  Event begin, end;
  begin.Record(stream_);
  timed.enqueue();
  end.Record(stream_);
  end.Await();
  return timed.first = Microseconds(begin, end);
}

FastestSearch::Result FastestSearch::Fastest() {
  std::vector<Timed> timed = timed_;
  const auto by_first = [](const Timed& a, const Timed& b) { return a.first < b.first; };
  const double fastest = std::min_element(timed.begin(), timed.end(), by_first)->first;
  std::erase_if(timed, [&](const Timed& t) { return t.first > kHopeless * fastest; });
  if (timed.size() > kFinalists) {
    std::stable_sort(timed.begin(), timed.end(), by_first);
    timed.resize(kFinalists);
  }
  if (timed.size() == 1) return {timed[0].candidate, timed[0].first};
  TakeTurns(timed, fastest);
  double best = timed[0].median();
  for (Timed& t : timed) best = std::min(best, t.median());
  const auto chosen =
      std::find_if(timed.begin(), timed.end(), [&](Timed& t) { return t.median() <= kTie * best; });
  return {chosen->candidate, chosen->median()};
}

void FastestSearch::TakeTurns(std::vector<Timed>& timed, double fastest) const {
  const int calls = std::clamp(static_cast<int>(kTiming / fastest), 1, kMostCalls);
  const int turns =
      static_cast<int>(kWarmUp / (fastest * calls * static_cast<double>(timed.size())));
  for (int turn = 0; turn < std::min(turns, 4 * kRounds); ++turn) {
    for (const Timed& t : timed) Repeat(t.enqueue, calls);
  }
  std::vector<Event> events(kRounds * timed.size() + 1);
  size_t next = 0;
  events[next++].Record(stream_);
  for (int round = 0; round < kRounds; ++round) {
    for (const Timed& t : timed) {
      Repeat(t.enqueue, calls);
      events[next++].Record(stream_);
    }
  }
  events.back().Await();
  next = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (Timed& t : timed) {
      t.rounds.push_back(Microseconds(events[next], events[next + 1]) / calls);
      ++next;
    }
  }
}

}  // namespace plimsoll::ops
