// Where the tensors of one program lie, as its executor sees it: in arenas, at addresses that never
// change, or in memory that is allocated and freed while the program runs.
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

  // The current address of the tensor; nullptr when it has no memory at this time.
  virtual std::byte* address(graph::TensorId id) const = 0;
  // Whether addresses change while the program runs: those of a node are then looked up right
  // before it runs.
  virtual bool moves() const = 0;
  // Called around every node, views included, in the order of the program. Memory that the node
  // writes first exists from BeforeNode on; memory that no later node reads is gone after
  // AfterNode.
  virtual void BeforeRun() {}
  virtual void BeforeNode(int /*node*/) {}
  virtual bool TakesMemory(int /*node*/) const { return false; }  // whether BeforeNode will
  virtual void AfterNode(int /*node*/) {}
};

// At the offsets of a layout.
class ArenaTensors : public TensorMemory {
 public:
  // The program must outlive this object. InternalError when a tensor lies outside its arena, or a
  // view where its base is not.
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

// The address of an argument of the program's node number `node`; nullptr if the node goes without.
// InternalError when the tensor has no memory at this time.
std::byte* AddressFor(const TensorMemory& memory, const graph::Program& program, int node,
                      graph::TensorId argument);

// InternalError on options that inspect an arena's bytes, where addresses change.
void CheckInstruments(const TensorMemory& memory, const graph::Program& program,
                      const ExecutorOptions& options);

}  // namespace plimsoll::runtime
