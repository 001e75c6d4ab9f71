#include "trainer/settle/activity.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/message.h"

namespace plimsoll::trainer {
namespace {

constexpr std::chrono::seconds kMoment(2);

bool under_way = false;

}  // namespace

// Waits on a thread of its own.
class Activity::Watcher {
 public:
  explicit Watcher(std::string what) : what_(std::move(what)), thread_([this] { Run(); }) {}
  ~Watcher() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    news_.notify_one();
    thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    if (news_.wait_for(lock, kMoment, [this] { return over_; })) return;
    PrintNote(what_ + " …\n");
  }

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable news_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

Activity::Activity(std::string what) {
  if (under_way) return;
  under_way = true;
  watcher_ = std::make_unique<Watcher>(std::move(what));
}

Activity::~Activity() {
  if (watcher_) under_way = false;
}

}  // namespace plimsoll::trainer
