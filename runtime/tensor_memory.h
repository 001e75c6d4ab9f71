// The addresses of one program's tensors, as its executor sees them: in arenas, where addresses
// never change, or in memory that is allocated and freed while the program runs.
#pragma once

#include <cstddef>

#include "graph/program.h"
#include "runtime/executor.h"
#include "runtime/layout.h"
#include "runtime/node_ranges.h"

namespace plimsoll::runtime {

class TensorMemory {
 public:
  virtual ~TensorMemory() = default;

  // The current address of the tensor; nullptr if it has no memory at this time.
  virtual std::byte* address(graph::TensorId id) const = 0;
  // Whether addresses change while the program runs. The addresses of a node's tensors are then
  // looked up right before the node runs.
  virtual bool moves() const = 0;
  // BeforeNode and AfterNode are called around every node, including views, in the order of the
  // program. Memory that the node writes first exists from BeforeNode on. Memory that no later node
  // reads is freed in AfterNode.
  virtual void BeforeRun() {}
  virtual void BeforeNode(int /*node*/) {}
  // Whether BeforeNode will take memory.
  virtual bool TakesMemory(int /*node*/) const { return false; }
  virtual void AfterNode(int /*node*/) {}
};

// Tensors at the offsets of a layout.
class ArenaTensors : public TensorMemory {
 public:
  // The program must outlive this object. Throws InternalError if a tensor lies outside its arena,
  // or if a view's bytes are not those of its base.
  ArenaTensors(const graph::Program& program, Layout layout, ArenaBases bases);

  std::byte* address(graph::TensorId id) const override;
  bool moves() const override { return false; }
  const Layout& layout() const { return layout_; }
  const ArenaBases& bases() const { return bases_; }

 private:
  const graph::Program& program_;
  const Layout layout_;
  const ArenaBases bases_;
};

// The address of an argument of the program's node number `node`; nullptr if the argument is
// kNoTensor. Throws InternalError if the tensor has no memory at this time.
std::byte* AddressFor(const TensorMemory& memory, const graph::Program& program, int node,
                      graph::TensorId argument);

// Throws InternalError if options inspect an arena's bytes but addresses change.
void CheckInstruments(const TensorMemory& memory, const graph::Program& program,
                      const ExecutorOptions& options);

}  // namespace plimsoll::runtime
