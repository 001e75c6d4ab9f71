// NVIDIA's number for a kind of GPU, and the limits that the number implies.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

// By default an H200's, for which a plan is made where no GPU is known.
struct ComputeCapability {
  int major = 9, minor = 0;

  auto operator<=>(const ComputeCapability&) const = default;

  // Whether code for Hopper alone (sm_90a) runs there.
  bool is_hopper() const { return major == 9 && minor == 0; }
  // Whether matrix units multiply bf16, and float32 in TF32.
  bool multiplies_bf16() const { return major >= 8; }
  bool multiplies_tf32() const { return major >= 8; }
  // Whether matrix units multiply 8-bit floats.
  bool multiplies_float8() const { return *this >= ComputeCapability{8, 9}; }
  // The most shared memory, in bytes, that a thread block may have. Source: CUDA C++ Programming
  // Guide, "Technical Specifications per Compute Capability". Of an unknown GPU: the least of any
  // since 8.0.
  int64_t shared_bytes() const;

  // Whether a GPU of this capability runs the kernels that are chosen for `other`: whether it has
  // the units and the shared memory that they take.
  bool runs_kernels_of(ComputeCapability other) const;

  std::string text() const;  // "9.0"
};

// The capabilities that CUDA 13 makes code for, "7.5, 8.0, …". Source: nvcc --list-gpu-arch.
std::string ComputeCapabilityNames();
// Reads "8.6"; nullopt if the text is none of these capabilities.
std::optional<ComputeCapability> ParseComputeCapability(std::string_view text);

// Makes this process choose kernels and their memory as for that GPU, whatever GPU is there, to try
// here what other GPUs do. For all devices that are made later.
void ActAs(ComputeCapability capability);
// The capability that ActAs was called with; nullopt if it wasn't.
std::optional<ComputeCapability> ActedCapability();

}  // namespace plimsoll
