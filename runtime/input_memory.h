// Memory of the host in which batches wait for a device that reads them where they lie: some places
// of equal size. Host threads fill a place while the device reads others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll::runtime {

class InputMemory {
 public:
  virtual ~InputMemory() = default;

  virtual int places() const = 0;
  virtual std::span<std::byte> place(int place) = 0;
  // Enqueues the copy of bytes of a place to where an input lies, as DeviceMemory::Write orders
  // it: after the runs that were enqueued before and read the input, and before those enqueued
  // after. The host copies nothing and does not wait.
  virtual void Write(int place, std::span<std::byte> to, const std::byte* from) = 0;
  // Returns once all copies of the place that were enqueued are done. Any thread may call, but not
  // at the same time as a Write of that place. Throws when the device has failed.
  virtual void Await(int place) = 0;
};

}  // namespace plimsoll::runtime
