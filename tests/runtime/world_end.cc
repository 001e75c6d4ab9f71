// usage, under mpirun: world_end HOW       ends the last rank in some way while the others wait
//                      world_end HOW link  the same while they wait for gradients of later stages
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/ranks/world.h"
#include "runtime/stage_link.h"

namespace {

using plimsoll::runtime::LinkDirection;
using plimsoll::runtime::StageLink;
using plimsoll::runtime::World;

// Each rank is a stage of a pipeline.
class Stages {
 public:
  explicit Stages(World& world) {
    std::vector<int64_t> ranks(static_cast<size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    link_ = world.MakeCpuStageLink(ranks);
  }

  void Receive(int64_t micro_batch) {
    link_->StartReceive({LinkDirection::kUp, 0, micro_batch}, bytes_);
    link_->AwaitReceive(LinkDirection::kUp, 0);
  }
  void Send(int64_t micro_batch) {
    link_->StartSend({LinkDirection::kUp, 0, micro_batch}, bytes_);
    link_->AwaitSends();
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 20);
  std::unique_ptr<StageLink> link_;
};

void End(World& world, const std::string& how) {
  if (how == "abort") world.Abort(7);
  if (how == "throw") throw std::runtime_error("an error of the last rank");
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "leave") _exit(7);
  if (how == "thread") {
    // A watchdog, while this rank, like the others, waits for one that comes too late.
    std::thread watchdog([&] {
      usleep(200'000);
      world.Abort(7);
    });
    world.MakeCpuCommunicator();
    world.Barrier();
    pause();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const bool linked = argc > 2;
  try {
    World world;
    const bool last = world.rank() + 1 == world.size();
    std::unique_ptr<Stages> stages;
    if (linked) {
      stages = std::make_unique<Stages>(world);
      // One message up through all stages.
      if (!last) stages->Receive(0);
      if (world.rank() > 0) stages->Send(0);
      usleep(100'000);  // until the others wait
    }
    if (last) {
      if (linked && how == "order") stages->Send(2);
      End(world, how);
    } else if (how == "thread" && world.rank() == 0) {
      world.MakeCpuCommunicator();
      pause();
    } else if (linked) {
      stages->Receive(1);
    }
    world.Barrier();
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 3;
  }
  return 0;
}
