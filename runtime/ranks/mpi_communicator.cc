#include "runtime/ranks/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "runtime/ranks/mpi_library.h"
#include "runtime/ranks/rank_reduction.h"

namespace plimsoll::runtime {
namespace {

// Divided among the parts of all ranks: parts arrive from peers and are read again soon.
constexpr int64_t kScratchBytes = int64_t{4} << 20;

// The tag of all messages: between a pair of ranks they arrive in the order in which they were
// sent.
constexpr int kTag = 0;

std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }
const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }

}  // namespace

OwnedMpiComm::~OwnedMpiComm() {
  int finished = 0;
  Mpi().Finalized(&finished);
  if (finished == 0 && std::uncaught_exceptions() == 0) Mpi().Comm_free(&comm_);
}

int RankIn(MPI_Comm comm) {
  int rank = 0;
  CheckMpi(Mpi().Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int SizeOf(MPI_Comm comm) {
  int size = 0;
  CheckMpi(Mpi().Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

MPI_Comm Duplicate(MPI_Comm comm) {
  MPI_Comm copy;
  CheckMpi(Mpi().Comm_dup(comm, &copy), "MPI_Comm_dup");
  return copy;
}

MpiCommunicator::MpiCommunicator(MPI_Comm comm)
    : Communicator(RankIn(comm), SizeOf(comm)),
      comm_(Duplicate(comm)),
      scratch_(std::make_unique<std::byte[]>(kScratchBytes)) {
  requests_.reserve(2 * static_cast<size_t>(size()));
}

void MpiCommunicator::Barrier() { CheckMpi(Mpi().Barrier(comm_.get()), "MPI_Barrier"); }

void MpiCommunicator::DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                                  ops::Reduction reduction, void* /*stream*/) {
  // Each rank reduces its part of a piece and sends the result to all.
  const int64_t width = graph::ByteSize(dtype);
  const int64_t part = PieceElements(dtype);
  for (int64_t first = 0; first < count; first += part * size()) {
    const int64_t here = std::min(count - first, part * size());
    const int64_t share = (here + size() - 1) / size();
    const auto begin = [&](int rank) { return first + std::min(here, share * rank); };
    const auto bytes = [&](int rank) { return (begin(rank + 1) - begin(rank)) * width; };
    const int64_t own_bytes = bytes(rank());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      StartReceive(scratch_.get() + peer * share * width, own_bytes, peer);
      StartSend(Bytes(from) + begin(peer) * width, bytes(peer), peer);
    }
    WaitForAll();
    std::byte* const own = Bytes(to) + begin(rank()) * width;
    ReduceInRankOrder({.own = Bytes(from) + begin(rank()) * width,
                       .others = scratch_.get(),
                       .stride_bytes = share * width,
                       .rank = rank(),
                       .size = size()},
                      own, own_bytes / width, dtype, reduction);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      StartReceive(Bytes(to) + begin(peer) * width, bytes(peer), peer);
      StartSend(own, own_bytes, peer);
    }
    WaitForAll();
  }
}

void MpiCommunicator::DoAllGather(const void* from, void* to, int64_t bytes, void* /*stream*/) {
  std::byte* const own = Bytes(to) + rank() * bytes;
  if (own != from) std::memcpy(own, from, static_cast<size_t>(bytes));
  ForEachPiece(bytes, [&](int64_t first, int length) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      StartReceive(Bytes(to) + peer * bytes + first, length, peer);
      StartSend(own + first, length, peer);
    }
    WaitForAll();
  });
}

void MpiCommunicator::DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                                      ops::Reduction reduction, void* /*stream*/) {
  const int64_t width = graph::ByteSize(dtype);
  const int64_t part = PieceElements(dtype);
  for (int64_t first = 0; first < count; first += part) {
    const int64_t bytes = std::min(count - first, part) * width;
    const auto part_of = [&](int peer) { return Bytes(from) + (peer * count + first) * width; };
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      StartReceive(scratch_.get() + peer * bytes, bytes, peer);
      StartSend(part_of(peer), bytes, peer);
    }
    WaitForAll();
    ReduceInRankOrder({.own = part_of(rank()),
                       .others = scratch_.get(),
                       .stride_bytes = bytes,
                       .rank = rank(),
                       .size = size()},
                      Bytes(to) + first * width, bytes / width, dtype, reduction);
  }
}

void MpiCommunicator::DoBroadcast(void* data, int64_t bytes, int root, void* /*stream*/) {
  ForEachPiece(bytes, [&](int64_t first, int length) {
    CheckMpi(Mpi().Bcast(Bytes(data) + first, length, Mpi().byte, root, comm_.get()), "MPI_Bcast");
  });
}

void MpiCommunicator::DoSend(const void* data, int64_t bytes, int peer, void* /*stream*/) {
  ForEachPiece(bytes, [&](int64_t first, int length) {
    CheckMpi(Mpi().Send(Bytes(data) + first, length, Mpi().byte, peer, kTag, comm_.get()),
             "MPI_Send");
  });
}

void MpiCommunicator::DoReceive(void* data, int64_t bytes, int peer, void* /*stream*/) {
  ForEachPiece(bytes, [&](int64_t first, int length) {
    CheckMpi(Mpi().Recv(Bytes(data) + first, length, Mpi().byte, peer, kTag, comm_.get(),
                        MPI_STATUS_IGNORE),
             "MPI_Recv");
  });
}

void MpiCommunicator::StartSend(const std::byte* data, int64_t bytes, int peer) {
  if (bytes == 0) return;
  CheckMpi(Mpi().Isend(data, static_cast<int>(bytes), Mpi().byte, peer, kTag, comm_.get(),
                       &requests_.emplace_back(Mpi().no_request)),
           "MPI_Isend");
}

void MpiCommunicator::StartReceive(std::byte* data, int64_t bytes, int peer) {
  if (bytes == 0) return;
  CheckMpi(Mpi().Irecv(data, static_cast<int>(bytes), Mpi().byte, peer, kTag, comm_.get(),
                       &requests_.emplace_back(Mpi().no_request)),
           "MPI_Irecv");
}

void MpiCommunicator::WaitForAll() {
  CheckMpi(Mpi().Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
           "MPI_Waitall");
  requests_.clear();
}

int64_t MpiCommunicator::PieceElements(graph::DType dtype) const {
  return std::max<int64_t>(1, kScratchBytes / size() / graph::ByteSize(dtype));
}

}  // namespace plimsoll::runtime
