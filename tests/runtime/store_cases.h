// Elements of parameters that a device stores, in all forms and from all sources.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace plimsoll::runtime {

struct StoreForm {
  std::string name;
  graph::DType dtype;
  bool has_remainder = false, remainder_here = false, has_master = false;
};

inline std::vector<StoreForm> StoreForms() {
  using graph::DType;
  return {{"f32", DType::kFloat32},
          {"bf16", DType::kBFloat16},
          {"f16", DType::kFloat16},
          {"bf16 with a remainder", DType::kBFloat16, true, true},
          {"bf16 with a remainder elsewhere", DType::kBFloat16, true, false},
          {"f16 with a master", DType::kFloat16, false, false, true},
          {"bf16 with a master", DType::kBFloat16, false, false, true}};
}

// In one piece or in columns; from numbers on that are aligned to blocks of draws and that are not.
inline std::vector<Stripe> StoreStripes() {
  return {Stripe::Piece(0, 10000),
          Stripe::Piece(4096, 1),
          Stripe::Piece(4097, 4099),
          Stripe::Piece(38, 1026),
          {.first = 12, .width = 20, .stride = 60, .skip = 0, .count = 2000},
          {.first = 12, .width = 20, .stride = 60, .skip = 33, .count = 1901},
          {.first = 5, .width = 7, .stride = 21, .skip = 3, .count = 1111},
          {.first = 2, .width = 1, .stride = 3, .skip = 0, .count = 500}};
}

inline std::vector<InitialDraws> StoreDraws() {
  using Kind = InitialDraws::Kind;
  return {{Kind::kNormal, 0.02f, 7, StreamOf("a.weight")},
          {Kind::kUniform, 0.3f, uint64_t{5} << 33, StreamOf("a.lora_a")},
          {Kind::kConstant, 1.5f, 7, StreamOf("a.bias")}};
}

// All kinds of numbers, NaNs among them.
inline std::vector<std::byte> ArbitraryBits(int64_t bytes) {
  std::mt19937 random(3);
  std::vector<std::byte> bits(static_cast<size_t>(bytes));
  for (std::byte& byte : bits) byte = static_cast<std::byte>(random());
  return bits;
}

// A device's memory, in which elements are stored.
class StoreBench {
 public:
  explicit StoreBench(Device& device) : device_(device), memory_(device.Allocate(kArena, kArena)) {}

  // Where so many elements lie in a form: from element `offset` of tensors on.
  StoredParameter Place(const StoreForm& form, graph::Place place, int64_t elements,
                        int64_t offset) const {
    const auto at = [&](int64_t tensor, int64_t size) {
      return memory_->Address({place, tensor * kArena / 3 + offset * size, elements * size});
    };
    return {.dtype = form.dtype,
            .elements = elements,
            .data = at(0, graph::ByteSize(form.dtype)),
            .remainder = form.remainder_here ? reinterpret_cast<int16_t*>(at(1, 2)) : nullptr,
            .master = form.has_master ? reinterpret_cast<float*>(at(2, 4)) : nullptr,
            .has_remainder = form.has_remainder};
  }

  // What both arenas hold when `store` has run on memory of another content.
  template <typename Store>
  std::vector<std::byte> After(const Store& store) {
    const std::vector<std::byte> before(kArena, std::byte{0xA5});
    const MemoryRange device{graph::Place::kDevice, 0, kArena},
        host{graph::Place::kHost, 0, kArena};
    memory_->Write(device, before.data());
    memory_->Write(host, before.data());
    store();
    std::vector<std::byte> bytes(2 * kArena);
    memory_->Read(device, bytes.data());
    memory_->Read(host, bytes.data() + kArena);
    return bytes;
  }

  Device& device() const { return device_; }

  static constexpr int64_t kArena = 3 << 16;

 private:
  Device& device_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace plimsoll::runtime
