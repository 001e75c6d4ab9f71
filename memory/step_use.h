// The bytes and seconds of finished programs, by block.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program.h"
#include "memory/cost_model.h"
#include "memory/variant.h"

namespace plimsoll::memory {

// The regions of a training program: [0] before the blocks, [1 + i] forward of block i, [1 + N] the
// head and the loss, [2 + N + i] backward of block i, [2 + 2N] after the blocks: the update.
inline int RegionCount(int blocks) { return 3 + 2 * blocks; }
inline int ForwardRegion(int block) { return 1 + block; }
inline int HeadRegion(int blocks) { return 1 + blocks; }
inline int BackwardRegion(int blocks, int block) { return 2 + blocks + block; }
inline int UpdateRegion(int blocks) { return 2 + 2 * blocks; }

// The bytes and seconds of one program. Members without another key are by region.
struct ProgramUse {
  std::vector<int64_t> peaks;   // the most bytes of temporaries alive on the device
  std::vector<int64_t> ends;    // bytes of temporaries alive while the last node of the region runs
  std::vector<int64_t> again;   // by block: the most bytes alive while the block is recomputed
  std::vector<double> seconds;  // seconds of the region's nodes, including waits
  std::vector<double> work;     // the same as `seconds`, without copies that overlap with ops
};

struct StepUse {
  std::vector<ProgramUse> programs;
  std::vector<int64_t> times;  // by program: the number of times that a step runs it
  int64_t nodes = 0;
  bool copies = false;  // whether the programs copy to or from the host

  int64_t peak() const;  // the largest peak of temporaries of all programs
  double seconds() const;
  double work(int region) const;
  double work() const;
};

StepUse MeasureStep(const std::vector<StepProgram>& step, int blocks, int64_t alignment,
                    const CostModel& cost);

// The bytes of the persistent tensors of all programs, which programs share by name.
int64_t PersistentBytes(const std::vector<StepProgram>& step, graph::Place place,
                        int64_t alignment);

// The bytes and seconds of a variant's step that keeps all activations.
struct KeptUse : StepUse {
  int64_t device_bytes = 0, host_bytes = 0;  // bytes of persistent tensors
  double micro_steps = 0;                    // number of micro-steps of a step
};
KeptUse MeasureKept(const Variant& variant, int64_t alignment, const CostModel& cost);

}  // namespace plimsoll::memory
