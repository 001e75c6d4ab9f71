// Links between stages, each a rank under mpirun. Every message's bytes follow from its direction,
// sender and micro-batch.
#include "runtime/stage_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/axes.h"
#include "base/thread_pool.h"
#include "runtime/device.h"
#include "runtime/ranks/mesh_ranks.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::runtime {
namespace {

using enum LinkDirection;

constexpr LinkDirection kDirections[] = {kDown, kUp};
constexpr int64_t kLongest = int64_t{16} << 20;

class StageLinks : public testing::Test {
 protected:
  using Bytes = std::vector<std::byte>;

  void SetUp() override {
    if (TestWorld().size() == 1) GTEST_SKIP() << "for mpirun: see the test that starts it";
    std::vector<int64_t> ranks(static_cast<size_t>(TestWorld().size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    link_ = TestWorld().MakeCpuStageLink(ranks);
  }

  StageLink& link() { return *link_; }
  int64_t stage() const { return link_->stage(); }
  int64_t last() const { return link_->stages() - 1; }

  // The stages at the other ends; none: -1 or as many as there are.
  int64_t ReceiverOf(LinkDirection direction) const {
    return direction == kDown ? stage() + 1 : stage() - 1;
  }
  int64_t SenderOf(LinkDirection direction) const {
    return direction == kDown ? stage() - 1 : stage() + 1;
  }
  bool Sends(LinkDirection direction) const { return Exists(ReceiverOf(direction)); }
  bool Receives(LinkDirection direction) const { return Exists(SenderOf(direction)); }

  static Bytes Message(LinkDirection direction, int64_t sender, int64_t micro_batch,
                       int64_t bytes) {
    uint64_t state = static_cast<uint64_t>(micro_batch * 64 + sender * 2 + (direction == kUp));
    Bytes message(static_cast<size_t>(bytes));
    for (std::byte& byte : message) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<std::byte>(state >> 56);
    }
    return message;
  }
  Bytes OwnMessage(LinkDirection direction, int64_t micro_batch, int64_t bytes) const {
    return Message(direction, stage(), micro_batch, bytes);
  }
  void ExpectReceived(LinkDirection direction, int64_t micro_batch, const Bytes& bytes) const {
    EXPECT_TRUE(bytes == Message(direction, SenderOf(direction), micro_batch, std::ssize(bytes)))
        << "micro-batch " << micro_batch << (direction == kDown ? " down" : " up");
  }

 private:
  bool Exists(int64_t stage) const { return stage >= 0 && stage <= last(); }

  std::unique_ptr<StageLink> link_;
};

TEST_F(StageLinks, SendInBothDirectionsAtOnce) {
  int64_t micro_batch = 0;
  for (const int64_t bytes :
       {int64_t{1}, int64_t{7}, int64_t{4096}, int64_t{65'537}, int64_t{1} << 20, kLongest}) {
    SCOPED_TRACE(bytes);
    Bytes out[2], in[2];
    for (const LinkDirection direction : kDirections) {
      const auto d = static_cast<size_t>(direction);
      out[d] = OwnMessage(direction, micro_batch, bytes);
      in[d].resize(static_cast<size_t>(bytes));
      if (Sends(direction)) link().StartSend({direction, 0, micro_batch}, out[d]);
    }
    for (const LinkDirection direction : kDirections) {
      const auto d = static_cast<size_t>(direction);
      if (!Receives(direction)) continue;
      link().StartReceive({direction, 0, micro_batch}, in[d]);
      link().AwaitReceive(direction, 0);
      ExpectReceived(direction, micro_batch, in[d]);
    }
    link().AwaitSends();
    ++micro_batch;
  }
}

// All slots in both directions, awaited from the last to the first.
TEST_F(StageLinks, HaveManyMessagesInFlight) {
  const int64_t slots = link().slots();
  for (const int64_t bytes : {int64_t{3}, int64_t{100'000}, kLongest / 8}) {
    SCOPED_TRACE(bytes);
    std::vector<Bytes> out[2], in[2];
    for (const LinkDirection direction : kDirections) {
      const auto d = static_cast<size_t>(direction);
      for (int64_t slot = 0; slot < slots; ++slot) {
        out[d].push_back(OwnMessage(direction, slot, bytes));
        in[d].emplace_back(static_cast<size_t>(bytes));
      }
    }
    const auto for_all = [&](const auto& call) {
      for (int64_t slot = 0; slot < slots; ++slot) {
        for (const LinkDirection direction : kDirections) call(direction, slot);
      }
    };
    for_all([&](LinkDirection direction, int64_t slot) {
      Bytes& to = in[static_cast<size_t>(direction)][static_cast<size_t>(slot)];
      if (Receives(direction)) link().StartReceive({direction, slot, slot}, to);
    });
    for_all([&](LinkDirection direction, int64_t slot) {
      const Bytes& from = out[static_cast<size_t>(direction)][static_cast<size_t>(slot)];
      if (Sends(direction)) link().StartSend({direction, slot, slot}, from);
    });
    for_all([&](LinkDirection direction, int64_t slot) {
      slot = slots - 1 - slot;
      link().AwaitSend(direction, slot);
      if (!Receives(direction)) return;
      link().AwaitReceive(direction, slot);
      ExpectReceived(direction, slot,
                     in[static_cast<size_t>(direction)][static_cast<size_t>(slot)]);
    });
  }
}

// A step as one forward, one backward: down through all stages, and up again, in slots that are
// written anew. Each stage sends on what it received, plus 1 to each byte.
TEST_F(StageLinks, EndStepsOfRanksThatComeAtAnyTime) {
  constexpr int64_t kMicroBatches = 11;
  std::mt19937 random(static_cast<unsigned>(stage()) + 1);
  const auto sleep = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4 == 0 ? random() % 5000 : 0));
  };
  const int64_t slots = link().stages() - stage();
  for (const int64_t bytes : {int64_t{64}, int64_t{300'000}}) {
    SCOPED_TRACE(bytes);
    struct Slot {
      Bytes in, out, out_grad, in_grad;
    };
    std::vector<Slot> memory(static_cast<size_t>(slots));
    for (Slot& slot : memory) {
      for (Bytes* tensor : {&slot.in, &slot.out, &slot.out_grad, &slot.in_grad}) {
        tensor->resize(static_cast<size_t>(bytes));
      }
    }
    const auto pass = [&](LinkDirection direction, int64_t micro_batch) {
      const int64_t number = micro_batch % slots;
      Slot& slot = memory[static_cast<size_t>(number)];
      Bytes& from = direction == kDown ? slot.in : slot.out_grad;
      Bytes& to = direction == kDown ? slot.out : slot.in_grad;
      if (Receives(direction)) {
        sleep();
        link().StartReceive({direction, number, micro_batch}, from);
        sleep();
        link().AwaitReceive(direction, number);
      } else {
        from = direction == kDown ? Message(kDown, -1, micro_batch, bytes) : slot.out;
      }
      link().AwaitSend(direction, number);
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<std::byte>(std::to_integer<int>(from[i]) + 1);
      }
      sleep();
      if (Sends(direction)) link().StartSend({direction, number, micro_batch}, to);
    };
    const auto backward = [&](int64_t micro_batch) {
      pass(kUp, micro_batch);
      // Each byte has come down to the last stage and up again.
      const Bytes start = Message(kDown, -1, micro_batch, bytes);
      const int64_t added = 2 * link().stages() - stage();
      const Bytes& result = memory[static_cast<size_t>(micro_batch % slots)].in_grad;
      for (size_t i = 0; i < start.size(); ++i) {
        const int64_t expected = (std::to_integer<int64_t>(start[i]) + added) % 256;
        ASSERT_EQ(std::to_integer<int64_t>(result[i]), expected) << micro_batch << ", byte " << i;
      }
    };
    int64_t forwards = 0, backwards = 0;
    while (backwards < kMicroBatches) {
      if (forwards < kMicroBatches && forwards - backwards < slots) {
        pass(kDown, forwards++);
      } else {
        backward(backwards++);
      }
    }
    link().AwaitSends();
  }
}

TEST_F(StageLinks, WaitForTheReceiverIfSendsAreSynchronous) {
  const char* const synchronous = std::getenv("PLIMSOLL_SYNCHRONOUS_SENDS");
  if (synchronous == nullptr) GTEST_SKIP() << "without PLIMSOLL_SYNCHRONOUS_SENDS";
  constexpr auto kLate = std::chrono::milliseconds(200);
  Bytes bytes(1);
  TestWorld().Barrier();
  if (stage() == 0) {
    const auto start = std::chrono::steady_clock::now();
    link().StartSend({kDown, 0, 0}, bytes);
    link().AwaitSend(kDown, 0);
    EXPECT_GT(std::chrono::steady_clock::now() - start, kLate / 2);
  }
  if (stage() == 1) {
    std::this_thread::sleep_for(kLate);
    link().StartReceive({kDown, 0, 0}, bytes);
    link().AwaitReceive(kDown, 0);
  }
}

TEST_F(StageLinks, NameMessagesOutOfOrder) {
  Bytes first(16), second(16);
  if (stage() == 0) {
    link().StartSend({kDown, 0, 4}, first);
    link().StartSend({kDown, 1, 3}, second);
    link().AwaitSends();
  }
  if (stage() == 1) {
    link().StartReceive({kDown, 1, 3}, first);
    link().StartReceive({kDown, 0, 4}, second);
    ExpectInternalError(
        [&] { link().AwaitReceive(kDown, 1); },
        {"receive of micro-batch 3 from stage 0 (rank 0), slot 1", "micro-batch 4 came"});
    ExpectInternalError([&] { link().AwaitReceive(kDown, 0); }, {"micro-batch 3 came"});
  }
}

TEST_F(StageLinks, NameMessagesOfAnotherLength) {
  Bytes bytes(4096);
  const std::span<std::byte> all = bytes;
  if (stage() == 1) {
    for (const size_t length : {4000, 4096}) {
      link().StartSend({kUp, 0, 7}, all.first(length));
      link().AwaitSends();
    }
  }
  if (stage() == 0) {
    link().StartReceive({kUp, 0, 7}, all);
    ExpectInternalError([&] { link().AwaitReceive(kUp, 0); },
                        {"micro-batch 7 from stage 1 (rank 1)", "4000 bytes came, not 4096"});
    link().StartReceive({kUp, 0, 7}, all.first(4000));
    ExpectInternalError([&] { link().AwaitReceive(kUp, 0); },
                        {"micro-batch 7 from stage 1 (rank 1)", "MPI_Wait", "truncated"});
  }
}

TEST_F(StageLinks, RefuseWhatNoStageOrSlotAllows) {
  Bytes bytes(8);
  if (stage() == 0) {
    ExpectInternalError(
        [&] {
          link().StartSend({kUp, 0, 5}, bytes);
        },
        {"send of micro-batch 5 to stage -1", "stages"});
    ExpectInternalError([&] { link().StartReceive({kDown, 0, 5}, bytes); }, {"from stage -1"});
    ExpectInternalError([&] { link().StartSend({kDown, link().slots(), 5}, bytes); }, {"slots"});
    ExpectInternalError([&] { link().AwaitReceive(kUp, 0); }, {"no receive up"});
    link().AwaitSend(kDown, 0);  // none in flight
    link().StartSend({kDown, 0, 5}, bytes);
    ExpectInternalError(
        [&] {
          link().StartSend({kDown, 0, 6}, bytes);
        },
        {"micro-batch 6 to stage 1", "micro-batch 5 has not been awaited"});
    link().AwaitSends();
  }
  if (stage() == 1) {
    link().StartReceive({kDown, 0, 5}, bytes);
    ExpectInternalError(
        [&] {
          link().StartReceive({kDown, 0, 6}, bytes);
        },
        {"micro-batch 5 has not been awaited"});
    link().AwaitReceive(kDown, 0);
  }
}

// The stages of each data rank are linked by themselves, and errors name ranks of the job.
TEST_F(StageLinks, AreMadeAlongTheAxisOfStages) {
  const int64_t ranks = TestWorld().size();
  if (ranks % 2 != 0) GTEST_SKIP() << "for an even number of ranks";
  ThreadPool pool(1);
  const auto device = MakeCpuDevice(pool);
  const Mesh mesh({PipelineAxis(2), DataAxis(ranks / 2)});
  MeshRanks mesh_ranks(TestWorld(), mesh);
  EXPECT_EQ(mesh_ranks.stage_link(), nullptr);
  mesh_ranks.Connect(*device, 0);
  StageLink* const stages = mesh_ranks.stage_link();
  ASSERT_NE(stages, nullptr);
  const int64_t rank = TestWorld().rank();
  EXPECT_EQ(stages->stages(), 2);
  EXPECT_EQ(stages->stage(), mesh.Coordinate(rank, kPipelineAxis));
  Bytes bytes(1);
  if (stages->stage() == 0) {
    bytes[0] = static_cast<std::byte>(rank);
    stages->StartSend({kDown, 0, 0}, bytes);
    stages->AwaitSends();
  } else {
    stages->StartReceive({kDown, 0, 1}, bytes);
    ExpectInternalError([&] { stages->AwaitReceive(kDown, 0); },
                        {"(rank " + std::to_string(rank - ranks / 2) + ")"});
    EXPECT_EQ(std::to_integer<int64_t>(bytes[0]), rank - ranks / 2);
  }
  MeshRanks no_stages(TestWorld(), Mesh({DataAxis(ranks)}));
  no_stages.Connect(*device, 0);
  EXPECT_EQ(no_stages.stage_link(), nullptr);
}

TEST(StageLinkOfOneRank, DoesNotExist) {
  ExpectInternalError([] { MakeGroupOfOne()->MakeCpuStageLink({0}); }, {"one rank"});
}

}  // namespace
}  // namespace plimsoll::runtime
