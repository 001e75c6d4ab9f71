// Buffers on the host for batches, which the device reads directly. The buffers ("places") have
// equal sizes. Host threads fill one place while the device reads others.
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
  // Enqueues the copy of bytes of a place to the address of an input. The copy is ordered like
  // DeviceMemory::Write: after the runs enqueued before, which may read the input, and before the
  // runs enqueued after. The host copies nothing and does not wait.
  virtual void Write(int place, std::span<std::byte> to, const std::byte* from) = 0;
  // Returns once all enqueued copies of the place are done. Any thread may call it, but not at the
  // same time as a Write of that place. Throws if the device has failed.
  virtual void Await(int place) = 0;
};

}  // namespace plimsoll::runtime
