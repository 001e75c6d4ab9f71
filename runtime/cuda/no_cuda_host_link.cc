// runtime/cuda/host_link.h in builds without CUDA.
#include "runtime/cuda/host_link.h"

namespace plimsoll::runtime {

std::optional<HostLink> MeasureHostLink() { return std::nullopt; }

}  // namespace plimsoll::runtime
