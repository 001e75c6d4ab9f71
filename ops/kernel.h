// The interface of kernels, and the table of CPU kernels. A kernel never allocates: its scratch
// memory is the workspace that it declares, which the planner places.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/low_precision.h"
#include "base/thread_pool.h"
#include "graph/op.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

// The data of one argument; data is nullptr for an absent optional input or output.
struct TensorRef {
  void* data = nullptr;
  graph::TensorType type;
};

// The arguments of a kernel's call, on any device.
struct KernelCall {
  const graph::OpDef& op;
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs;
  const graph::Attributes& attributes;
  void* workspace;  // aligned like tensors
  int64_t workspace_bytes;
  // The ranks of the mesh axis that the attribute "axis" names. nullptr: the attribute is absent,
  // or this rank is the only one of the axis.
  Communicator* ranks = nullptr;

  // Whether this rank adds the terms that the sum over ranks must contain once. The first rank
  // does.
  bool adds_once() const { return ranks == nullptr || ranks->rank() == 0; }
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].data != nullptr; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i].data != nullptr; }

  // The data of input i; nullptr if it is absent.
  template <typename T>
  const T* in(size_t i) const {
    return has_input(i) ? static_cast<const T*>(inputs[i].data) : nullptr;
  }
  template <typename T>
  T* out(size_t i) const {
    return has_output(i) ? static_cast<T*>(outputs[i].data) : nullptr;
  }
  const graph::Shape& in_shape(size_t i) const { return inputs[i].type.shape; }
  const graph::Shape& out_shape(size_t i) const { return outputs[i].type.shape; }
};

// Tensors are 64-byte aligned.
struct CpuContext : KernelCall {
  ThreadPool& pool;
};

struct CpuKernel {
  std::string op;
  // Runs on the calling thread and on the pool. Bits must not depend on the number of threads.
  void (*run)(const CpuContext&);
  // The bytes of scratch for such a call with that many threads; nullptr means no scratch.
  int64_t (*workspace)(const graph::OpCall&, int threads) = nullptr;
};

// The CPU kernel of an op; nullptr if it has none.
const CpuKernel* FindCpuKernel(std::string_view op);

// For use at namespace scope in ops/KIND/NAME_cpu.cc:   const CpuKernelRegistration
// kKernel({"gelu", &Gelu});
struct CpuKernelRegistration {
  explicit CpuKernelRegistration(CpuKernel kernel);
};

// The type in which a kernel computes: float for the 16-bit types, else the stored type.
template <typename Stored>
using Compute = std::conditional_t<std::is_same_v<Stored, double>, double, float>;

// Calls body.template operator()<float, double, BFloat16 or Float16>().
template <typename Body>
void DispatchStored(graph::DType dtype, Body&& body) {
  switch (dtype) {
    case graph::DType::kFloat32:
      return body.template operator()<float>();
    case graph::DType::kFloat64:
      return body.template operator()<double>();
    case graph::DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case graph::DType::kFloat16:
      return body.template operator()<Float16>();
    default:
      throw InternalError("no CPU kernel for dtype " + std::string(graph::Name(dtype)));
  }
}

}  // namespace plimsoll::ops
