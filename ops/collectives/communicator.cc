#include "ops/collectives/communicator.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::ops {
namespace {

void CheckCount(const char* call, int64_t count) {
  if (count < 0) throw InternalError(fmt::format("{}: a count of {}", call, count));
}

void CheckRank(const char* call, int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw InternalError(fmt::format("{}: rank {} in a group of {}", call, rank, size));
  }
}

void CheckPeer(const char* call, int peer, const Communicator& communicator) {
  CheckRank(call, peer, communicator.size());
  if (peer == communicator.rank()) {
    throw InternalError(fmt::format("{}: rank {} is this rank itself", call, peer));
  }
}

void CheckReducible(const char* call, graph::DType dtype) {
  if (dtype == graph::DType::kInt16) {
    throw InternalError(fmt::format("{}: no reduction of {}", call, graph::Name(dtype)));
  }
}

}  // namespace

void Communicator::AllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                             Reduction reduction, void* stream) {
  CheckCount("all-reduce", count);
  CheckReducible("all-reduce", dtype);
  if (count > 0) DoAllReduce(from, to, count, dtype, reduction, stream);
}

void Communicator::AllGather(const void* from, void* to, int64_t count, graph::DType dtype,
                             void* stream) {
  CheckCount("all-gather", count);
  if (count > 0) DoAllGather(from, to, count * graph::ByteSize(dtype), stream);
}

void Communicator::ReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                                 Reduction reduction, void* stream) {
  CheckCount("reduce-scatter", count);
  CheckReducible("reduce-scatter", dtype);
  if (count > 0) DoReduceScatter(from, to, count, dtype, reduction, stream);
}

void Communicator::Broadcast(void* data, int64_t count, graph::DType dtype, int root,
                             void* stream) {
  CheckCount("broadcast", count);
  CheckRank("broadcast", root, size_);
  if (count > 0) DoBroadcast(data, count * graph::ByteSize(dtype), root, stream);
}

void Communicator::Send(const void* data, int64_t count, graph::DType dtype, int peer,
                        void* stream) {
  CheckCount("send", count);
  CheckPeer("send", peer, *this);
  if (count > 0) DoSend(data, count * graph::ByteSize(dtype), peer, stream);
}

void Communicator::Receive(void* data, int64_t count, graph::DType dtype, int peer, void* stream) {
  CheckCount("receive", count);
  CheckPeer("receive", peer, *this);
  if (count > 0) DoReceive(data, count * graph::ByteSize(dtype), peer, stream);
}

}  // namespace plimsoll::ops
