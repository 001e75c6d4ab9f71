#include "trainer/resolve/activity.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/message.h"

namespace plimsoll::trainer {
namespace {

constexpr std::chrono::seconds kMoment(1);

}  // namespace

// Waits on a separate thread until the activity has lasted long enough to be announced.
class Activity::Watcher {
 public:
  explicit Watcher(std::string what) : what_(std::move(what)) {
    {
      const std::lock_guard lock(mutex_);
      under_way_.push_back(this);
    }
    news_.notify_all();
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (...) {
      Leave();
      throw;
    }
  }
  ~Watcher() {
    Leave();
    thread_.join();
  }

 private:
  void Leave() {
    {
      const std::lock_guard lock(mutex_);
      std::erase(under_way_, this);
      over_ = true;
    }
    news_.notify_all();
  }

  bool IsInnermost() const { return under_way_.back() == this; }

  void Run() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      // Whether the activity ended, or a nested activity began, within kMoment.
      const bool disturbed =
          news_.wait_for(lock, kMoment, [this] { return over_ || !IsInnermost(); });
      if (!disturbed) return PrintNote(what_ + " …\n");
      news_.wait(lock, [this] { return over_ || IsInnermost(); });
    }
  }

  static inline std::mutex mutex_;
  static inline std::condition_variable news_;
  // From the outermost to the innermost activity.
  static inline std::vector<const Watcher*> under_way_;

  const std::string what_;
  bool over_ = false;
  std::thread thread_;
};

Activity::Activity(std::string what, std::string stage)
    : stage_(std::move(stage)), watcher_(std::make_unique<Watcher>(std::move(what))) {}

Activity::~Activity() = default;

}  // namespace plimsoll::trainer
