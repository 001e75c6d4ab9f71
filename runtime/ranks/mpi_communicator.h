// Collective calls between CPUs through MPI. Reductions are our own, on pieces that MPI transfers,
// so that elements are added in the order of the ranks, whatever order MPI would choose.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/collectives/communicator.h"

namespace plimsoll::runtime {

// An MPI communicator that is freed with its owner.
class OwnedMpiComm {
 public:
  explicit OwnedMpiComm(MPI_Comm comm) : comm_(comm) {}
  // MPI may wait for other ranks here, so it isn't called while an exception passes through.
  ~OwnedMpiComm();
  OwnedMpiComm(const OwnedMpiComm&) = delete;
  OwnedMpiComm& operator=(const OwnedMpiComm&) = delete;

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

int RankIn(MPI_Comm comm);
int SizeOf(MPI_Comm comm);

// Duplicates `comm`, so that messages of the two are kept apart. All its ranks call.
MPI_Comm Duplicate(MPI_Comm comm);

// MPI counts in int: calls piece(first byte, bytes) for consecutive pieces that fit.
template <typename Piece>
void ForEachPiece(int64_t bytes, const Piece& piece) {
  constexpr int64_t kPieceBytes = int64_t{1} << 30;
  for (int64_t first = 0; first < bytes; first += kPieceBytes) {
    piece(first, static_cast<int>(bytes - first < kPieceBytes ? bytes - first : kPieceBytes));
  }
}

class MpiCommunicator : public ops::Communicator {
 public:
  // Uses the ranks of `comm`, at least two, and duplicates it. All of them call.
  explicit MpiCommunicator(MPI_Comm comm);

  void Barrier() override;

 private:
  void DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                   ops::Reduction reduction, void* stream) override;
  void DoAllGather(const void* from, void* to, int64_t bytes, void* stream) override;
  void DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                       ops::Reduction reduction, void* stream) override;
  void DoBroadcast(void* data, int64_t bytes, int root, void* stream) override;
  void DoSend(const void* data, int64_t bytes, int peer, void* stream) override;
  void DoReceive(void* data, int64_t bytes, int peer, void* stream) override;

  // One message to or from a rank, of at most 1 GiB, on its way until WaitForAll().
  void StartSend(const std::byte* data, int64_t bytes, int peer);
  void StartReceive(std::byte* data, int64_t bytes, int peer);
  void WaitForAll();
  // Number of elements that fit in each rank's part of the scratch memory.
  int64_t PieceElements(graph::DType dtype) const;

  OwnedMpiComm comm_;
  std::unique_ptr<std::byte[]> scratch_;
  std::vector<MPI_Request> requests_;
};

}  // namespace plimsoll::runtime
