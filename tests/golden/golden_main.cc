// bazel run //tests:golden -- [--cuda] DIR…
//
// Trains as each folder says, on a GPU with --cuda, and prints how far the losses, gradient norms
// and final weights are from the reference. Exit code 1 when one exceeds its tolerance.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/golden/trajectory.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  const bool cuda = argc > 1 && std::string_view(argv[1]) == "--cuda";
  const int first = cuda ? 2 : 1;
  if (argc <= first) {
    fmt::print(stderr,
               "usage: golden [--cuda] DIR…   (config.json, model.safetensors, tokens.bin, "
               "expected.json, final.safetensors in each)\n");
    return static_cast<int>(ExitCode::kUserMistake);
  }
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::filesystem::current_path(directory);
  }
  ThreadPool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  fmt::print("{:<40} {:>5} {:>12} {:>12} {:>12}\n", "largest deviation of", "steps", "loss",
             "grad norm", "weights");
  bool within = true;
  for (int i = first; i < argc; ++i) {
    try {
      const auto device = cuda ? runtime::MakeCudaDevice(pool) : runtime::MakeCpuDevice(pool);
      const golden::Deviations d = golden::FollowTrajectory(argv[i], *device);
      fmt::print("{:<40} {:>5} {:>12.2e} {:>12.2e} {:>12.2e}  worst: {} {:.2e}{}\n", argv[i],
                 d.steps, d.loss, d.grad_norm, d.weights, d.worst_parameter,
                 d.worst_parameter_deviation,
                 golden::WithinTolerance(d) ? "" : "  BEYOND TOLERANCE");
      within = within && golden::WithinTolerance(d);
    } catch (const UserError& error) {
      fmt::print(stderr, "{}\n", error.what());
      return static_cast<int>(error.code());
    }
  }
  return within ? 0 : 1;
}
