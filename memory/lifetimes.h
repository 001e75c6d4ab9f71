// Lifetimes of temporaries: when each temporary of a program is alive, and which ones share one
// buffer in place.
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
  // The tensors that own these bytes, one after the other (no aliases). There are several when an
  // op overwrites an input that dies. At most one of them is a kept tensor; its place is the
  // buffer's.
  std::vector<graph::TensorId> tensors;
  int64_t bytes = 0;  // without alignment
  // Inputs that the host fills and kept tensors that earlier programs wrote are born at 0; metrics,
  // and kept tensors that later programs read, die at the last node.
  int32_t birth = 0;
  int32_t death = 0;
  graph::Place place = graph::Place::kDevice;
};

struct Lifetimes {
  std::vector<Buffer> buffers;
  // By TensorId, aliases resolved: index into buffers, or -1 (persistent, or not used by any node).
  std::vector<int32_t> buffer_of;
  // By TensorId, only for tensors that are no aliases: the tensor's own first and last node,
  // without its in-place partners. -1: no node.
  std::vector<int32_t> first_use, last_use;
};

// Throws InternalError when a temporary is read before it is written. `in_place`: if false, every
// tensor gets its own buffer.
Lifetimes ComputeLifetimes(const graph::Program& program, bool in_place = true,
                           const KeptNeeds& kept = {});

// The node that first writes the owner of a buffer. nullptr: the host fills it, or it is a kept
// tensor.
const graph::Node* WriterOf(const graph::Program& program, const Lifetimes& lifetimes,
                            graph::TensorId owner);

// By node: the bytes of the buffers in that place which are alive, each rounded up to `alignment`.
// `nodes`: the number of the program's nodes.
std::vector<int64_t> LiveBytes(const Lifetimes& lifetimes, graph::Place place, size_t nodes,
                               int64_t alignment);

}  // namespace plimsoll::memory
