// The kinds of devices that programs run on, and the facts of each that a plan needs. Plans for all
// kinds can be made on any machine, with or without the device.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::runtime {

enum class DeviceKind : uint8_t { kCpu, kCuda };

constexpr std::string_view Name(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

// Alignment of tensors, in bytes: on CPUs a cache line; on GPUs the alignment that allocators
// guarantee and libraries rely on.
constexpr int64_t TensorAlignment(DeviceKind kind) { return kind == DeviceKind::kCpu ? 64 : 256; }

}  // namespace plimsoll::runtime
