// The kinds of devices that programs run on, and what a plan needs to know about each. Plans for
// all kinds can be made on any machine, with or without the device.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::runtime {

enum class DeviceKind : uint8_t { kCpu, kCuda };

constexpr std::string_view Name(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

// Alignment of tensors, in bytes: a cache line; on GPUs, what their allocators guarantee and
// libraries rely on.
constexpr int64_t TensorAlignment(DeviceKind kind) { return kind == DeviceKind::kCpu ? 64 : 256; }

}  // namespace plimsoll::runtime
