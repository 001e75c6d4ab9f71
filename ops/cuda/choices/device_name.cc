#include "ops/cuda/choices/device_name.h"

#include <fmt/format.h>

namespace plimsoll::ops {

std::string NameWithLibrary(const cudaDeviceProp& device, const char* library, size_t version) {
  return fmt::format("{}, compute capability {}.{}, {} multiprocessors, {} {}", device.name,
                     device.major, device.minor, device.multiProcessorCount, library, version);
}

}  // namespace plimsoll::ops
