#include "ops/cuda/choices/device_name.h"

#include <fmt/format.h>

namespace plimsoll::ops {

std::string NameWithLibrary(const gpu::Libraries& libraries, const char* library, size_t version) {
  return fmt::format("{}, compute capability {}, {} multiprocessors, {} {}",
                     libraries.properties().name, libraries.capability().text(),
                     libraries.multiprocessors(), library, version);
}

}  // namespace plimsoll::ops
