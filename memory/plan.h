// The memory plan of a step: an offset for every tensor of every program, and what the memory is
// used for.
//
// A step is a list of programs that run one at a time (micro-steps, evaluation, generation) and
// share persistent tensors by name. One arena serves all: it begins with the persistent tensors;
// the temporaries of the running program follow. Tensors placed on the host have a second arena of
// the same form. Temporaries may also lie on the bytes of kept tensors (memory/kept_tensors.h),
// which end the device's persistent tensors, where and while their values are not needed. Sizes are
// rounded up to the alignment, unless stated otherwise.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "graph/program.h"
#include "memory/kept_tensors.h"
#include "runtime/allocator_stats.h"
#include "runtime/layout.h"

namespace plimsoll::memory {

using graph::kRoles;
// Bytes by role, indexed by static_cast<size_t>(role).
using BytesByRole = std::array<int64_t, kRoles>;

// How many times in a row a program runs; the program is an index.
struct ProgramRuns {
  int program = 0;
  int64_t times = 1;
};

struct PlanOptions {
  int64_t alignment = 64;
  bool in_place = true;
  int64_t search_work = 20'000'000;  // bound for each program and each of the two arenas
                                     // (PlacementOptions)
  // The rank that is planned for. It determines only where aliases that are a rank's own part
  // (graph::Alias) begin; the rest of the plan is the same on all ranks.
  MeshPosition position = {};
  StepOrder order = {};  // the known order of programs; not needed without kept tensors
};

// A persistent tensor of the step.
struct PersistentTensor {
  std::string name;
  graph::TensorType type;
  graph::Role role = graph::Role::kParameter;
  graph::Place place = graph::Place::kDevice;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A tensor alive at the peak.
struct LiveTensor {
  std::string name;
  graph::TensorType type;
  graph::Role role = graph::Role::kActivation;
  std::string op;     // op of its writer; empty for persistent tensors and for inputs that the host
                      // fills
  std::string scope;  // scope of its writer; for a persistent tensor, its name up to the last dot
  bool persistent = false;
  int64_t bytes = 0;
};

struct ProgramPlan {
  std::string name;
  runtime::Layout layout;
  KeptNeeds kept;

  // These are about the device arena.
  int64_t temporary_bytes = 0;  // extent of the temporaries above the persistent prefix
  int64_t max_live_bytes = 0;   // at the peak, including the persistent tensors that are needed
                                // then

  // The peak: the first node at which max_live_bytes are alive. -1 in a program without nodes.
  int peak_node = -1;
  std::string peak_at;  // a description of peak_node
  // Bytes alive at each node in the two arenas, including the persistent tensors that are needed at
  // the node.
  std::vector<int64_t> live_bytes, host_live_bytes;
};

struct MemoryPlan {
  int64_t alignment = 64;

  // These are about the device arena; on the CPU, it is the only one unless tensors are placed on
  // the host.
  int64_t arena_bytes = 0;  // persistent_bytes + the largest temporary_bytes
  int64_t persistent_bytes = 0;
  int64_t max_live_bytes = 0;  // the largest of all programs
  double fragmentation = 0;    // arena_bytes / max_live_bytes − 1
  int peak_program = -1;       // index into programs; -1 without programs

  // The corresponding sizes of pinned host memory.
  int64_t host_arena_bytes = 0;
  int64_t host_persistent_bytes = 0;
  int64_t host_max_live_bytes = 0;

  // The host memory through which inputs of a GPU's programs pass, in addition to both arenas. The
  // caller of MakePlan sets it.
  int64_t host_input_bytes = 0;
  // All host memory that a plan for a GPU takes.
  int64_t host_bytes() const { return host_arena_bytes + host_input_bytes; }

  // What max_live_bytes consists of: the persistent tensors and the temporaries alive at the peak,
  // largest first. Each map sums to max_live_bytes.
  std::vector<LiveTensor> peak_live;
  BytesByRole bytes_by_role = {};
  std::map<std::string, int64_t> bytes_by_scope;  // scopes with numbers starred: "block.*.attn"

  std::vector<PersistentTensor> persistent;  // in order of offset, device first
  std::vector<ProgramPlan> programs;         // in the order of MakePlan's argument

  // The statistics of the arena in that place.
  runtime::AllocatorStats stats(graph::Place place) const {
    if (place == graph::Place::kDevice) {
      return {.peak_allocated = max_live_bytes, .peak_reserved = arena_bytes, .segments = 1};
    }
    return {
        .peak_allocated = host_max_live_bytes, .peak_reserved = host_arena_bytes, .segments = 1};
  }
  int64_t bytes_of(graph::Role role) const { return bytes_by_role[static_cast<size_t>(role)]; }
};

struct PlannedPrograms {
  std::vector<const graph::Program*> programs;
  const MemoryPlan& plan;
  // Programs in the order in which they run: the micro-steps of a step, then evaluation and
  // generation if they were compiled.
  std::vector<ProgramRuns> round;
};

// Deterministic. Throws an InternalError that names the tensor when two programs disagree about a
// persistent tensor's type, role or place.
MemoryPlan MakePlan(std::span<const graph::Program* const> programs,
                    const PlanOptions& options = {});

// "node 812 of 1630: gelu_backward in block.11.mlp, backward".
std::string DescribeNode(const graph::Program& program, int node);

// "block.3.attn" → "block.*.attn".
std::string StarNumbers(std::string_view scope);

}  // namespace plimsoll::memory
