// What the programs of all ranks must have in common. Each rank compiles its own programs, which
// may differ in local ops: what is recomputed, fused or copied, how much scratch memory there is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "runtime/world.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// Lines that must be equal on ranks.
struct CommonLines {
  // By axis: the nodes that work along it, in the order of the programs, with their types; on a GPU
  // also the places of their tensors and the size of the arena, which ranks register together.
  // Equal on the ranks that share the axis.
  std::map<std::string, std::vector<std::string>> collectives;
  // The carried tensors, with their types. Equal on all ranks: a snapshot is put together of them.
  std::vector<std::string> carried;
};
CommonLines CommonLinesOf(const CompiledStep& compiled);

// Throws a UserError on every rank that names the first difference between two ranks. All ranks
// call.
void RequireAgreement(runtime::World& world, const Mesh& mesh, const CompiledStep& compiled);

}  // namespace plimsoll::trainer
