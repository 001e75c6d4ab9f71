// What all ranks must have in common before the first step. Each rank compiles its own programs,
// which may differ in local ops: what is recomputed, fused or copied, how much scratch memory there
// is.
#pragma once

#include <string>
#include <vector>

#include "runtime/ranks/world.h"
#include "trainer/step/compile.h"

namespace plimsoll::trainer {

// UserError on every rank, naming the first rank that differs, unless all pass the same text. All
// ranks call. `what`: "configurations".
void RequireSame(runtime::World& world, const std::string& text, const std::string& what);

// Lines that must be equal on all ranks.
struct CommonLines {
  // The nodes that work along an axis of the mesh, with their types, in the order of the programs:
  // ranks that issue collectives of several axes in different orders can wait for each other
  // forever. On a GPU also the places of their tensors and the size of the arena, which ranks
  // register together.
  std::vector<std::string> collectives;
  // The carried tensors, with their types: together they make a snapshot.
  std::vector<std::string> carried;
};
CommonLines CommonLinesOf(const CompiledStep& compiled);

// Throws a UserError on every rank that names the first line in which a rank differs from rank 0.
// All ranks call.
void RequireAgreement(runtime::World& world, const CompiledStep& compiled);

// Tells programs and their plans apart: a hash of their text and places, and the sizes of arenas.
std::string FingerprintOf(const CompiledStep& compiled);

}  // namespace plimsoll::trainer
