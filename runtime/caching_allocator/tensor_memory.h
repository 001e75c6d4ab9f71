// Memory of a program's tensors that is allocated and freed while the program runs, as seen by an
// executor.
#pragma once

#include <cstddef>

#include "graph/program.h"
#include "graph/tensor.h"

namespace plimsoll::runtime {

class TensorMemory {
 public:
  virtual ~TensorMemory() = default;

  virtual void BeforeRun() = 0;
  // Called around every node, views included, in the order of the program. Memory that the node
  // writes first exists from BeforeNode on; memory that no later node reads is gone after
  // AfterNode.
  virtual void BeforeNode(int node) = 0;
  virtual bool TakesMemory(int node) const = 0;  // whether BeforeNode will
  virtual void AfterNode(int node) = 0;
  // The current address of the tensor; nullptr when it has no memory at this time.
  virtual std::byte* address(graph::TensorId id) const = 0;
};

// The address of an argument of the program's node number `node`; nullptr if the node goes without.
// InternalError when the tensor has no memory at this time.
std::byte* AddressFor(const TensorMemory& memory, const graph::Program& program, int node,
                      graph::TensorId argument);

}  // namespace plimsoll::runtime
