#include "memory/spread.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>

namespace plimsoll::memory {
namespace {

class Estimate {
 public:
  Estimate(const BlockTimes& times, std::span<const BlockCopy> copies)
      : times_(times), copies_(copies), blocks_(static_cast<int>(copies.size())) {
    for (const BlockCopy& copy : copies) room_ = std::max(room_, kCopiesUnderWay * copy.bytes);
    result_.bytes.assign(copies.size() + 1, 0);
  }

  CopiesBeside Run() {
    Forward();
    Backward();
    result_.wait = now_ - times_.total();
    return std::move(result_);
  }

 private:
  struct Departure {
    int64_t bytes;
    double assumed, actual;  // end
  };

  void Forward() {
    std::deque<Departure> departing;
    int64_t size = 0;
    double link_free = 0;
    const auto finish_while = [&](auto condition) {
      for (; !departing.empty() && condition(departing.front()); departing.pop_front()) {
        now_ = std::max(now_, departing.front().actual);
        size -= departing.front().bytes;
      }
    };
    const auto assumed_done = [&](const Departure& copy) { return copy.assumed <= now_; };
    for (int block = 0; block < blocks_; ++block) {
      finish_while(assumed_done);
      result_.bytes[block] = size;
      now_ += times_.forward[block];
      const BlockCopy& copy = copies_[block];
      if (copy.bytes == 0) continue;
      finish_while([&](const Departure&) { return size + copy.bytes > room_; });
      const double start = std::max(now_, link_free);
      link_free = start + copy.seconds;
      departing.push_back({copy.bytes, start + kCopySlack * copy.seconds, link_free});
      size += copy.bytes;
    }
    finish_while(assumed_done);
    result_.bytes.back() = size;
    now_ += times_.head;
    finish_while([](const Departure&) { return true; });
  }

  // When the copies back start, in seconds of a backward pass that never waits.
  std::vector<double> ArrivalStarts() const {
    std::vector<double> starts(copies_.size());
    double needed = std::reduce(times_.backward.begin(), times_.backward.end()), latest = needed;
    for (int block = 0; block < blocks_; ++block) {
      needed -= times_.backward[block];
      if (copies_[block].bytes == 0) continue;
      latest = std::min(latest, needed);
      starts[block] = std::max(0.0, latest - kCopySlack * copies_[block].seconds);
      latest -= copies_[block].seconds;
    }
    return starts;
  }

  void Backward() {
    const std::vector<double> starts = ArrivalStarts();
    std::vector<double> arrivals(copies_.size());
    double work = 0, link_free = now_;
    int64_t size = 0;  // of what has started and is not yet needed
    int next = blocks_ - 1;
    const auto start_until = [&](double time) {
      for (; next >= 0; --next) {
        const BlockCopy& copy = copies_[next];
        if (copy.bytes == 0) continue;
        if (starts[next] > time || size + copy.bytes > room_) return;
        // The computation is behind by what it has waited.
        const double start = std::max(link_free, now_ + std::max(0.0, starts[next] - work));
        arrivals[next] = link_free = start + copy.seconds;
        size += copy.bytes;
      }
    };
    for (int block = blocks_ - 1; block >= 0; --block) {
      start_until(work);
      if (copies_[block].bytes > 0) {
        now_ = std::max(now_, arrivals[block]);
        size -= copies_[block].bytes;
      }
      start_until(work + times_.backward[block]);
      result_.bytes[block] = std::max(result_.bytes[block], size);
      work += times_.backward[block];
      now_ += times_.backward[block];
    }
  }

  const BlockTimes& times_;
  const std::span<const BlockCopy> copies_;
  const int blocks_;
  int64_t room_ = 0;
  double now_ = 0;
  CopiesBeside result_;
};

}  // namespace

bool InSpread(int block, int count, int blocks) {
  if (count == 0) return false;
  const int64_t n = blocks, k = count, b = block;
  return (b * k + n - 1) / n * n < (b + 1) * k;  // a multiple of n/k lies in [b, b + 1)
}

double BlockTimes::total() const {
  return std::reduce(forward.begin(), forward.end(), head) +
         std::reduce(backward.begin(), backward.end());
}

CopiesBeside EstimateCopies(const BlockTimes& times, std::span<const BlockCopy> copies) {
  return Estimate(times, copies).Run();
}

}  // namespace plimsoll::memory
