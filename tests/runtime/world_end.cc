// usage, under mpirun: world_end HOW      ends the last rank in some way while the others wait
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/ranks/world.h"

namespace {

void End(plimsoll::runtime::World& world, const std::string& how) {
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
  try {
    plimsoll::runtime::World world;
    if (world.rank() + 1 == world.size()) {
      End(world, how);
    } else if (how == "thread" && world.rank() == 0) {
      world.MakeCpuCommunicator();
      pause();
    }
    world.Barrier();
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 3;
  }
  return 0;
}
