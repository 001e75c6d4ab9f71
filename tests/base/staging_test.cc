#include "base/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(Staging, DoesAllWorkOnceWithBuffersOfItsOwn) {
  for (const int threads : {1, 2, 5}) {
    for (const int count : {1, 2, 3, 8}) {
      ThreadPool pool(threads);
      const HostStaging staging(count, 16);
      std::vector<std::atomic<int>> done(100);
      std::mutex mutex;
      std::set<std::byte*> in_use;
      ForEachStaged(pool, staging.buffers(), done.size(), [&](size_t i, StagingTurns& turns) {
        EXPECT_EQ(turns.bytes(), 16u);
        const std::span<std::byte> bytes = turns.Next();
        {
          const std::lock_guard lock(mutex);
          EXPECT_TRUE(in_use.insert(bytes.data()).second);
        }
        std::memset(bytes.data(), static_cast<int>(i), bytes.size());
        ++done[i];
        const std::lock_guard lock(mutex);
        in_use.erase(bytes.data());
      });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

// Something that reads buffers after the work that filled them has gone on.
class LateReader {
 public:
  explicit LateReader(int buffers) : memory_(static_cast<size_t>(buffers), std::vector<char>(4)) {
    waiting_.resize(memory_.size());
    for (size_t i = 0; i < memory_.size(); ++i) {
      buffers_.push_back({std::as_writable_bytes(std::span(memory_[i])), [this, i] { Finish(i); }});
    }
  }

  std::span<const StagingBuffer> buffers() const { return buffers_; }
  const std::string& taken() const { return taken_; }

  void ReadLater(std::span<std::byte> bytes) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (buffers_[i].bytes.data() == bytes.data()) waiting_[i] = true;
    }
  }

 private:
  void Finish(size_t i) {
    if (waiting_[i]) taken_ += memory_[i][0];
    waiting_[i] = false;
  }

  std::vector<std::vector<char>> memory_;
  std::vector<StagingBuffer> buffers_;
  std::vector<bool> waiting_;
  std::string taken_;
};

TEST(Staging, ABufferIsAwaitedBeforeItIsUsedAgainAndAtTheEnd) {
  LateReader reader(3);
  ThreadPool pool(1);
  ForEachStaged(pool, reader.buffers(), 7, [&](size_t i, StagingTurns& turns) {
    const std::span<std::byte> bytes = turns.Next();
    bytes[0] = static_cast<std::byte>('a' + i);
    reader.ReadLater(bytes);
  });
  EXPECT_EQ(reader.taken().size(), 7u);
  EXPECT_EQ(std::set<char>(reader.taken().begin(), reader.taken().end()).size(), 7u);
}

TEST(Staging, BuffersAreAwaitedBehindAnErrorToo) {
  LateReader reader(2);
  ThreadPool pool(1);
  EXPECT_THROW(ForEachStaged(pool, reader.buffers(), 7,
                             [&](size_t i, StagingTurns& turns) {
                               const std::span<std::byte> bytes = turns.Next();
                               bytes[0] = static_cast<std::byte>('a' + i);
                               reader.ReadLater(bytes);
                               if (i == 1) throw UserError("no more");
                             }),
               UserError);
  EXPECT_EQ(reader.taken(), "ab");
}

TEST(Staging, ThrowsTheFirstErrorAndBeginsNothingBehindIt) {
  ThreadPool pool(3);
  const HostStaging staging(3, 1);
  std::atomic<int> begun = 0;
  std::string message;
  try {
    ForEachStaged(pool, staging.buffers(), 1000, [&](size_t i, StagingTurns&) {
      ++begun;
      if (i >= 20) throw std::runtime_error(std::to_string(i));
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  // Another thread may be ahead of the first error, by at most its own piece of work.
  EXPECT_EQ(message, "20");
  EXPECT_LE(begun, 23);
}

TEST(Staging, NeedsMemory) {
  ThreadPool pool(1);
  EXPECT_THROW(ForEachStaged(pool, {}, 1, [](size_t, StagingTurns&) {}), InternalError);
  const HostStaging nothing(1, 0);
  EXPECT_THROW(ForEachStaged(pool, nothing.buffers(), 1, [](size_t, StagingTurns&) {}),
               InternalError);
}

}  // namespace
}  // namespace plimsoll
