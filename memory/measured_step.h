// What a step takes, measured on its finished programs.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/tensor.h"
#include "memory/block_profile.h"
#include "memory/cost_model.h"
#include "memory/solver.h"

namespace plimsoll::memory {

struct MeasuredStep {
  std::vector<RegionUse> uses;  // by program
  std::vector<int64_t> times;   // how often each runs
  int64_t nodes = 0;
  bool copies = false;  // to the host, or back

  int64_t peak() const;  // of temporaries
  double seconds(int region) const;
  double seconds() const;
};

MeasuredStep MeasureStep(const std::vector<StepProgram>& step, int blocks, int64_t alignment,
                         const CostModel& cost);

// Of all programs, which share them by name.
int64_t PersistentBytes(const std::vector<StepProgram>& step, graph::Place place,
                        int64_t alignment);

bool Offloads(const Assignment& assignment);
// Of activations that wait on the host.
int64_t OffloadedBytes(const Variant& variant, const Assignment& assignment);
Assignment KeepAll(const Variant& variant);

}  // namespace plimsoll::memory
