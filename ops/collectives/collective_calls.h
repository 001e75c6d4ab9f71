// Translates a collective's node to the communicator's call, in the same way on all devices. A rank
// that is the only one of its axis copies.
#pragma once

#include <string>

#include "base/error.h"
#include "ops/collectives/axis.h"
#include "ops/kernel.h"

namespace plimsoll::ops {

// Copies a tensor on the stream; does nothing when it is already in place.
using CopyTensor = void(const TensorRef& from, const TensorRef& to, void* stream);

// The communicator of the call's axis; nullptr: this rank is the only one. Checks that `whole`
// holds one `part` from each rank.
inline Communicator* RanksOf(const KernelCall& call, const TensorRef& whole,
                             const TensorRef& part) {
  const int64_t size = call.ranks == nullptr ? 1 : call.ranks->size();
  if (whole.type.shape.elements() != size * part.type.shape.elements()) {
    throw InternalError(call.op.name + ": " + whole.type.ToString() + " is not " +
                        std::to_string(size) + " times " + part.type.ToString());
  }
  return call.ranks;
}

inline void CallAllReduce(const KernelCall& call, void* stream, CopyTensor* copy) {
  const TensorRef &x = call.inputs[0], &y = call.outputs[0];
  if (call.ranks == nullptr) return copy(x, y, stream);
  const int64_t elements = x.type.shape.elements();
  const Reduction reduction = ReductionOf(call.attributes);
  // The maximum is taken of bits as integers: the bits of non-negative floats have the same order,
  // with NaN above infinity.
  const graph::DType dtype = reduction == Reduction::kMax ? graph::DType::kInt32 : x.type.dtype;
  call.ranks->AllReduce(x.data, y.data, elements, dtype, reduction, stream);
}

inline void CallReduceScatter(const KernelCall& call, void* stream, CopyTensor* copy) {
  const TensorRef &x = call.inputs[0], &y = call.outputs[0];
  Communicator* const ranks = RanksOf(call, x, y);
  if (ranks == nullptr) return copy(x, y, stream);
  ranks->ReduceScatter(x.data, y.data, y.type.shape.elements(), x.type.dtype, Reduction::kSum,
                       stream);
}

inline void CallAllGather(const KernelCall& call, void* stream, CopyTensor* copy) {
  const TensorRef &x = call.inputs[0], &y = call.outputs[0];
  Communicator* const ranks = RanksOf(call, y, x);
  if (ranks == nullptr) return copy(x, y, stream);
  ranks->AllGather(x.data, y.data, x.type.shape.elements(), x.type.dtype, stream);
}

}  // namespace plimsoll::ops
