// The tests of communicators, the same for all kinds (communicator_suite.cc). They run on as many
// ranks as the launcher started. Each test program defines where its data lies:
//
//   std::unique_ptr<CommunicatorBed> plimsoll::MakeCommunicatorBed(runtime::World& world) { … }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/dtype.h"
#include "ops/collectives/communicator.h"
#include "runtime/ranks/world.h"

namespace plimsoll {

class CommunicatorBed {
 public:
  virtual ~CommunicatorBed() = default;

  // Why the tests cannot run here; empty when they can. The same on all ranks.
  virtual std::string WhyNot() { return ""; }
  virtual std::unique_ptr<ops::Communicator> MakeCommunicator(runtime::RankGroup& group) = 0;
  // Types that this kind can reduce.
  virtual std::vector<graph::DType> ReducibleTypes() const = 0;
  // The stream for calls, or nullptr.
  virtual void* stream() { return nullptr; }
  // Whether sums are added as communicator.h says for the CPU: in the order of the ranks, in
  // float32.
  virtual bool AddsInRankOrder() const = 0;

  // Memory that communicators accept.
  virtual std::byte* Allocate(int64_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;
  virtual void Write(std::byte* to, const std::byte* from, int64_t bytes) = 0;
  // Reads after all work on the stream.
  virtual void Read(const std::byte* from, std::byte* to, int64_t bytes) = 0;
};

std::unique_ptr<CommunicatorBed> MakeCommunicatorBed(runtime::World& world);

}  // namespace plimsoll
