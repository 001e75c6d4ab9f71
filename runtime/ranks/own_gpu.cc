#include "runtime/ranks/own_gpu.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace plimsoll::runtime {

void ChooseOwnGpu(int local_rank, int local_size) {
  if (local_size <= 1) return;
  std::string own = std::to_string(local_rank);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::vector<std::string> gpus;
    std::istringstream list(visible);
    for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
    if (gpus.size() <= 1) return;
    const auto at = static_cast<size_t>(local_rank);
    own = at < gpus.size() ? gpus[at] : "";
  }
  setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
}

}  // namespace plimsoll::runtime
