#include "tests/ops/guarded_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "base/fnv1a.h"
#include "ops/kernel.h"
#include "tests/ops/elements.h"
#include "tests/support/allocation_counter.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::TensorType;

constexpr size_t kAlignment = 64;

// NaN in every floating type, so that reading a guard shows in a kernel's results, and a pattern
// that no kernel writes.
constexpr std::array<std::byte, 4> kGuard = {std::byte{0xC3}, std::byte{0xFF}, std::byte{0xF5},
                                             std::byte{0xFF}};

// `size` bytes, 64-byte aligned, with guards on both sides.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t size) : size_(size), memory_(new std::byte[size + 4 * kAlignment]) {
    for (size_t i = 0; i < size_ + 4 * kAlignment; ++i) memory_[i] = kGuard[i % kGuard.size()];
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    offset_ = 2 * kAlignment - address % kAlignment;
  }

  std::byte* data() { return memory_.get() + offset_; }
  size_t size() const { return size_; }

  bool GuardsIntact() const {
    for (size_t i = 0; i < size_ + 4 * kAlignment; ++i) {
      const bool inside = i >= offset_ && i < offset_ + size_;
      if (!inside && memory_[i] != kGuard[i % kGuard.size()]) return false;
    }
    return true;
  }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> memory_;
  size_t offset_ = 0;
};

// Box-Muller and modulo rather than <random>'s distributions, which differ between libraries.
double Uniform(std::mt19937_64& random) {
  return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
}
double NormalValue(std::mt19937_64& random) {
  const double radius = std::sqrt(-2 * std::log(Uniform(random)));
  return radius * std::cos(2 * 3.14159265358979323846 * Uniform(random));
}

double Draw(const ExampleInput& input, int64_t i, std::mt19937_64& random) {
  switch (input.fill) {
    case Fill::kNormal:
      return NormalValue(random);
    case Fill::kSmall:
      return 0.1 * NormalValue(random);
    case Fill::kPositive:
      return 0.5 + Uniform(random);
    case Fill::kTokens:
      return static_cast<double>(random() % static_cast<uint64_t>(input.limit));
    case Fill::kTargets:
      return i % 5 == 4 ? -100 : static_cast<double>(random() % static_cast<uint64_t>(input.limit));
    case Fill::kNumbers:
      return i % 5 == 4 ? std::nan("") : Uniform(random);
    case Fill::kCounter:
      return static_cast<double>(3 + i);
    case Fill::kPlaces:
      return static_cast<double>(i % input.shape.dim(-1) % input.limit);
    case Fill::kBits:  // not drawn as numbers
    case Fill::kAbsent:
      break;
  }
  return 0;
}

bool IsInteger(Fill fill) {
  return fill == Fill::kTokens || fill == Fill::kTargets || fill == Fill::kCounter ||
         fill == Fill::kPlaces;
}

std::string Describe(const GuardedCall& call, const char* what, size_t i) {
  return call.op.name + ": " + what + " " + std::to_string(i);
}

}  // namespace

double HostTensor::value(int64_t i) const { return ReadElement(type.dtype, bytes.data(), i); }
void HostTensor::set(int64_t i, double value) { WriteElement(type.dtype, bytes.data(), i, value); }

HostTensor PoisonedTensor(const TensorType& type) {
  return {type, std::vector<std::byte>(type.bytes(), std::byte{0xFF})};
}

std::vector<std::optional<HostTensor>> MakeInputs(const Example& example, DType dtype) {
  std::vector<std::optional<HostTensor>> inputs;
  for (size_t i = 0; i < example.inputs.size(); ++i) {
    const ExampleInput& input = example.inputs[i];
    if (input.fill == Fill::kAbsent) {
      inputs.push_back(std::nullopt);
      continue;
    }
    TensorType type{dtype, input.shape};
    if (input.compute_type) type.dtype = graph::ComputeType(dtype);
    if (IsInteger(input.fill)) type.dtype = DType::kInt32;
    if (input.dtype) type.dtype = *input.dtype;
    HostTensor tensor = PoisonedTensor(type);
    std::mt19937_64 random(Fnv1a(example.op + "/" + example.label) + i);
    if (input.fill == Fill::kBits) {
      for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
    } else {
      for (int64_t k = 0; k < input.shape.elements(); ++k) {
        tensor.set(k, static_cast<float>(Draw(input, k, random)));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<std::optional<HostTensor>> Widen(const Example& example,
                                             const std::vector<std::optional<HostTensor>>& inputs) {
  std::vector<std::optional<HostTensor>> wide = MakeInputs(example, DType::kFloat64);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    for (int64_t k = 0; k < inputs[i]->type.shape.elements(); ++k) {
      wide[i]->set(k, inputs[i]->value(k));
    }
  }
  return wide;
}

HostTensor RandomTensor(const TensorType& type, uint64_t seed) {
  HostTensor tensor = PoisonedTensor(type);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < type.shape.elements(); ++i) tensor.set(i, NormalValue(random));
  return tensor;
}

std::vector<TensorType> InferTypes(const GuardedCall& call) {
  std::vector<const TensorType*> inputs;
  for (const auto& input : call.inputs) inputs.push_back(input ? &input->type : nullptr);
  return call.op.infer(graph::OpCall{call.op, inputs, {}, call.attributes});
}

std::vector<std::optional<HostTensor>> RunKernel(const GuardedCall& call, ThreadPool& pool) {
  const CpuKernel* kernel = FindCpuKernel(call.op.name);
  if (kernel == nullptr) {
    ADD_FAILURE() << call.op.name << " has no CPU kernel";
    return {};
  }
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  auto new_buffer = [&](size_t size) {
    return buffers.emplace_back(new GuardedBuffer(size)).get();
  };

  std::vector<TensorRef> inputs(call.inputs.size());
  std::vector<const TensorType*> input_types(call.inputs.size(), nullptr);
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i]) continue;
    const HostTensor& tensor = *call.inputs[i];
    GuardedBuffer* buffer = new_buffer(tensor.bytes.size());
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), buffer->data());
    inputs[i] = {buffer->data(), tensor.type};
    input_types[i] = &tensor.type;
  }

  const std::vector<TensorType> types = InferTypes(call);
  std::vector<TensorRef> outputs(types.size());
  std::vector<const TensorType*> output_types(types.size(), nullptr);
  std::vector<bool> input_shared(inputs.size(), false);
  for (size_t i = 0; i < types.size(); ++i) {
    if (!call.want.empty() && !call.want[i]) continue;
    outputs[i].type = types[i];
    output_types[i] = &types[i];
    for (const graph::InPlacePair& pair : call.shared) {
      if (pair.output != static_cast<int>(i)) continue;
      outputs[i].data = inputs[pair.input].data;
      input_shared[pair.input] = true;
    }
    if (outputs[i].data == nullptr) {
      GuardedBuffer* buffer = new_buffer(types[i].bytes());
      std::fill_n(buffer->data(), buffer->size(), std::byte{0xFF});
      outputs[i].data = buffer->data();
    }
  }

  const graph::OpCall op_call{call.op, input_types, output_types, call.attributes};
  const int64_t workspace_bytes =
      kernel->workspace != nullptr ? kernel->workspace(op_call, pool.size()) : 0;
  GuardedBuffer* workspace = new_buffer(workspace_bytes);
  std::fill_n(workspace->data(), workspace->size(), std::byte{0xFF});

  const CpuContext context{
      {call.op, inputs, outputs, call.attributes, workspace->data(), workspace_bytes}, pool};
  const int64_t allocations = CountAllocations([&] { kernel->run(context); });
  if (call.count_allocations) {
    EXPECT_EQ(allocations, 0) << call.op.name << " allocated memory";
  }

  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_TRUE(buffers[i]->GuardsIntact()) << Describe(call, "wrote outside of buffer", i);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].data == nullptr || input_shared[i]) continue;
    const auto& before = call.inputs[i]->bytes;
    EXPECT_TRUE(std::equal(before.begin(), before.end(), static_cast<std::byte*>(inputs[i].data)))
        << Describe(call, "changed input", i);
  }
  std::vector<std::optional<HostTensor>> results;
  for (const TensorRef& output : outputs) {
    if (output.data == nullptr) {
      results.push_back(std::nullopt);
      continue;
    }
    const auto* data = static_cast<const std::byte*>(output.data);
    results.push_back(HostTensor{output.type, {data, data + output.type.bytes()}});
  }
  return results;
}

}  // namespace plimsoll::ops
