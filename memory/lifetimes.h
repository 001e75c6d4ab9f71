// Lifetimes of temporaries: when each temporary of a program is alive, and which temporaries share
// one buffer in place.
//
// Times are node indices, both ends included: a buffer is alive from node `birth`, which writes it,
// to node `death`, which reads it last. Views and other aliases extend the lifetime of the tensor
// they alias. Persistent tensors are always alive and don't appear here, except kept tensors whose
// values are not needed throughout the program (memory/kept_tensors.h).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "memory/kept_tensors.h"

namespace plimsoll::memory {

struct Buffer {
  // The tensors (no aliases) that own these bytes, one after the other. There are several tensors
  // if an op overwrites an input that dies. At most one of them is a kept tensor; the buffer then
  // has the kept tensor's place.
  std::vector<graph::TensorId> tensors;
  int64_t bytes = 0;  // not rounded up to the alignment
  // Inputs that the host fills and kept tensors that earlier programs wrote are born at 0; metrics,
  // and kept tensors that later programs read, die at the last node.
  int32_t birth = 0;
  int32_t death = 0;
  graph::Place place = graph::Place::kDevice;
};

struct Lifetimes {
  std::vector<Buffer> buffers;
  // By TensorId, also of aliases: the index of the tensor's buffer; -1 if the tensor is persistent
  // or no node uses it.
  std::vector<int32_t> buffer_of;
  // By TensorId, only for tensors that are no aliases: the first and the last node that use this
  // tensor, not the tensors that share its buffer in place. -1 if no node uses it.
  std::vector<int32_t> first_use, last_use;
};

// Throws InternalError if a temporary is read before it is written. If `in_place` is false, every
// tensor gets its own buffer.
Lifetimes ComputeLifetimes(const graph::Program& program, bool in_place = true,
                           const KeptNeeds& kept = {});

// The node that first writes the owner of a buffer; nullptr if the owner is an input that the host
// fills, or a kept tensor that another program writes.
const graph::Node* WriterOf(const graph::Program& program, const Lifetimes& lifetimes,
                            graph::TensorId owner);

// By node: the sum of the bytes of all buffers in `place` that are alive, each rounded up to
// `alignment`. `nodes`: the number of the program's nodes.
std::vector<int64_t> LiveBytes(const Lifetimes& lifetimes, graph::Place place, size_t nodes,
                               int64_t alignment);

}  // namespace plimsoll::memory
