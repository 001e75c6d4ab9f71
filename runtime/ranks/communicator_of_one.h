// The communicator of a group of one rank: it copies input to output unless both are the same
// memory.
#pragma once

#include <cstring>

#include "base/error.h"
#include "ops/collectives/communicator.h"

namespace plimsoll::runtime {

class CommunicatorOfOne : public ops::Communicator {
 public:
  CommunicatorOfOne() : Communicator(0, 1) {}
  void Barrier() override {}

 private:
  virtual void Copy(const void* from, void* to, int64_t bytes, void* stream) = 0;

  void DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                   ops::Reduction /*reduction*/, void* stream) override {
    DoAllGather(from, to, count * graph::ByteSize(dtype), stream);
  }
  void DoAllGather(const void* from, void* to, int64_t bytes, void* stream) override {
    if (from != to) Copy(from, to, bytes, stream);
  }
  void DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                       ops::Reduction /*reduction*/, void* stream) override {
    DoAllGather(from, to, count * graph::ByteSize(dtype), stream);
  }
  void DoBroadcast(void* /*data*/, int64_t /*bytes*/, int /*root*/, void* /*stream*/) override {}
  // Never called: the only peer is the rank itself, which the check of arguments refuses.
  void DoSend(const void* /*data*/, int64_t /*bytes*/, int /*peer*/, void* /*stream*/) override {
    throw InternalError("send: there is no other rank");
  }
  void DoReceive(void* /*data*/, int64_t /*bytes*/, int /*peer*/, void* /*stream*/) override {
    throw InternalError("receive: there is no other rank");
  }
};

class CpuCommunicatorOfOne : public CommunicatorOfOne {
  void Copy(const void* from, void* to, int64_t bytes, void* /*stream*/) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

}  // namespace plimsoll::runtime
