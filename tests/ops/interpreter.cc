#include "tests/ops/interpreter.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.h"
#include "ops/kernel.h"
#include "tests/ops/elements.h"

namespace plimsoll::ops {
namespace {

using graph::Node;
using graph::Tensor;
using graph::TensorId;

constexpr std::align_val_t kAlignment{64};

std::byte* NewPoisoned(int64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(std::max<int64_t>(bytes, 1), kAlignment));
  std::memset(memory, 0xFF, bytes);
  return memory;
}

}  // namespace

void Interpreter::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kAlignment);
}

Interpreter::Interpreter(const graph::Program& program, ThreadPool& pool)
    : program_(program), pool_(pool) {
  for (const Tensor& tensor : program.tensors()) {
    memory_.emplace_back(tensor.alias ? nullptr : NewPoisoned(tensor.bytes()));
  }
}

std::span<std::byte> Interpreter::Bytes(TensorId id) {
  const size_t size = static_cast<size_t>(program_.tensor(id).bytes());
  int64_t offset = 0;
  while (program_.tensor(id).alias) {
    offset += program_.tensor(id).alias->byte_offset;
    id = program_.tensor(id).alias->base;
  }
  return {memory_[id].get() + offset, size};
}

void Interpreter::Set(TensorId id, std::span<const double> values) {
  const Tensor& tensor = program_.tensor(id);
  if (static_cast<int64_t>(values.size()) != tensor.type.shape.elements()) {
    throw InternalError("tensor '" + tensor.name + "' has another number of elements");
  }
  void* const data = Bytes(id).data();
  for (size_t i = 0; i < values.size(); ++i) {
    WriteElement(tensor.type.dtype, data, static_cast<int64_t>(i), values[i]);
  }
}

std::vector<double> Interpreter::Get(TensorId id) {
  const graph::TensorType& type = program_.tensor(id).type;
  const void* const data = Bytes(id).data();
  std::vector<double> values(type.shape.elements());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = ReadElement(type.dtype, data, static_cast<int64_t>(i));
  }
  return values;
}

void Interpreter::Run() {
  for (const Node& node : program_.nodes()) {
    if (!node.op->view) RunNode(node);
  }
}

void Interpreter::RunNode(const Node& node) {
  const CpuKernel* kernel = FindCpuKernel(node.op->name);
  if (kernel == nullptr) throw InternalError("op '" + node.op->name + "' has no CPU kernel");
  auto refs = [&](const std::vector<TensorId>& ids) {
    std::vector<TensorRef> result(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == graph::kNoTensor) continue;
      result[i] = {Bytes(ids[i]).data(), program_.tensor(ids[i]).type};
    }
    return result;
  };
  const std::vector<TensorRef> inputs = refs(node.inputs), outputs = refs(node.outputs);
  const graph::Program::Call call = program_.CallOf(node);
  const int64_t bytes =
      kernel->workspace != nullptr ? kernel->workspace(call.get(), pool_.size()) : 0;
  const std::unique_ptr<std::byte, Free> workspace(NewPoisoned(bytes));
  kernel->run(
      CpuContext{{*node.op, inputs, outputs, node.attributes, workspace.get(), bytes}, pool_});
}

}  // namespace plimsoll::ops
