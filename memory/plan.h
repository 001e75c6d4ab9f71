// The memory plan of a step: an offset for every tensor of every program, and a summary of which
// tensors use the memory.
//
// A step is a list of programs that run one at a time (micro-steps, evaluation, generation) and
// share persistent tensors by name. One arena serves all: it begins with the persistent tensors;
// the temporaries of the running program follow. Tensors placed on the host have a second arena of
// the same form. Kept tensors (memory/kept_tensors.h) are the last of the device's persistent
// tensors. Temporaries may also lie on the bytes of a kept tensor while its value is not needed.
// Sizes are rounded up to the alignment, unless stated otherwise.
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

// How many times in a row a program runs. `program` is an index.
struct ProgramRuns {
  int program = 0;
  int64_t times = 1;
};

struct PlanOptions {
  int64_t alignment = 64;
  bool in_place = true;
  int64_t search_work = 20'000'000;  // the limit of the placement search (PlacementOptions::work),
                                     // for each program and each of the two arenas
  // The position in the mesh of the rank whose memory is planned. Only one thing depends on it:
  // where a view begins if it is the rank's own part of its base (graph::Alias::part_along). The
  // rest of the plan is the same on all ranks.
  MeshPosition position = {};
  StepOrder order = {};  // the order in which programs run; empty if there are no kept tensors
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
  std::string
      op;  // the op of the node that writes the tensor; empty for persistent tensors and inputs
  std::string scope;  // the scope of that node; for a persistent tensor, the tensor's name up to
                      // the last dot
  bool persistent = false;
  int64_t bytes = 0;
};

struct ProgramPlan {
  std::string name;
  runtime::Layout layout;
  KeptNeeds kept;

  // The following members are about the device arena.
  int64_t temporary_bytes = 0;  // extent of the temporaries above the persistent prefix
  // Bytes alive at the peak, including the persistent tensors that are needed then.
  int64_t max_live_bytes = 0;

  // The peak: the first node at which max_live_bytes are alive. -1 in a program without nodes.
  int peak_node = -1;
  std::string peak_at;  // a description of that node
  // Bytes alive at each node in the two arenas. The bytes include the persistent tensors that are
  // needed at that node.
  std::vector<int64_t> live_bytes, host_live_bytes;
};

struct MemoryPlan {
  int64_t alignment = 64;

  // The following members are about the device arena. On the CPU, a second arena exists only if
  // tensors are placed on the host.
  int64_t arena_bytes = 0;  // persistent_bytes + the largest temporary_bytes
  int64_t persistent_bytes = 0;
  int64_t max_live_bytes = 0;  // the largest value of all programs
  double fragmentation = 0;    // arena_bytes / max_live_bytes − 1
  int peak_program = -1;       // index into programs; -1 without programs

  // The corresponding sizes of pinned host memory.
  int64_t host_arena_bytes = 0;
  int64_t host_persistent_bytes = 0;
  int64_t host_max_live_bytes = 0;

  // Bytes of host memory, outside both arenas, from which inputs are copied to a GPU. The caller of
  // MakePlan sets it.
  int64_t host_input_bytes = 0;
  // All host memory that a plan for a GPU takes.
  int64_t host_bytes() const { return host_arena_bytes + host_input_bytes; }

  // The tensors that are alive at the peak, persistent ones and temporaries, the largest first. The
  // bytes of each of the following three members sum to max_live_bytes.
  std::vector<LiveTensor> peak_live;
  BytesByRole bytes_by_role = {};
  std::map<std::string, int64_t>
      bytes_by_scope;  // maps a scope, with * instead of numbers ("block.*.attn"), to its bytes

  std::vector<PersistentTensor> persistent;  // in order of offset; tensors on the device come first
  std::vector<ProgramPlan> programs;         // in the order of MakePlan's argument

  // The statistics of the arena on the device or on the host.
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

// Makes the same plan on any machine. Throws an InternalError that names the tensor if two programs
// disagree about a persistent tensor's type, role or place.
MemoryPlan MakePlan(std::span<const graph::Program* const> programs,
                    const PlanOptions& options = {});

// Describes a node as "node 812 of 1630: gelu_backward in block.11.mlp, backward".
std::string DescribeNode(const graph::Program& program, int node);

// Replaces the numbers in a scope: "block.3.attn" becomes "block.*.attn".
std::string StarNumbers(std::string_view scope);

}  // namespace plimsoll::memory
