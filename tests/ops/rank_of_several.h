// A rank's place among others that aren't there, for ops that only ask which part of a tensor is
// theirs.
#pragma once

#include "base/error.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::ops {

class RankOfSeveral : public Communicator {
 public:
  RankOfSeveral(int rank, int size) : Communicator(rank, size) {}
  void Barrier() override { Fail(); }

  // As the ranks of the axis "tensor".
  AxisCommunicators AlongTensor() { return {{"tensor", this}}; }

 private:
  [[noreturn]] static void Fail() { throw InternalError("the other ranks aren't there"); }
  void DoAllReduce(const void*, void*, int64_t, graph::DType, Reduction, void*) override { Fail(); }
  void DoAllGather(const void*, void*, int64_t, void*) override { Fail(); }
  void DoReduceScatter(const void*, void*, int64_t, graph::DType, Reduction, void*) override {
    Fail();
  }
  void DoBroadcast(void*, int64_t, int, void*) override { Fail(); }
  void DoSend(const void*, int64_t, int, void*) override { Fail(); }
  void DoReceive(void*, int64_t, int, void*) override { Fail(); }
};

}  // namespace plimsoll::ops
