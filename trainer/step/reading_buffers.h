// The memory through which files are read into a session.
#pragma once

#include <cstddef>
#include <span>

#include "base/staging.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

class ReadingBuffers {
 public:
  explicit ReadingBuffers(const Session &session)
      : memory_(session.device().pool().size(), kBufferBytes) {}
  std::span<const StagingBuffer> buffers() const { return memory_.buffers(); }

 private:
  // Small enough for a core's cache, where the elements are converted, and
  // large enough that calls of the system cost nothing.
  static constexpr size_t kBufferBytes = size_t{512} << 10;

  HostStaging memory_;
};

}  // namespace plimsoll::trainer
