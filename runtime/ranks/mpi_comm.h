// Communicators of MPI, for the calls in this folder.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>

#include "runtime/ranks/mpi_library.h"

namespace plimsoll::runtime {

// An MPI communicator that is freed with its owner.
class OwnedMpiComm {
 public:
  explicit OwnedMpiComm(MPI_Comm comm) : comm_(comm) {}
  // Freeing may wait for other ranks, so it is skipped while an exception unwinds the stack.
  ~OwnedMpiComm() {
    int finished = 0;
    Mpi().Finalized(&finished);
    if (finished == 0 && std::uncaught_exceptions() == 0) Mpi().Comm_free(&comm_);
  }
  OwnedMpiComm(const OwnedMpiComm&) = delete;
  OwnedMpiComm& operator=(const OwnedMpiComm&) = delete;

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_;
};

// Splits `bytes` for MPI, which counts in int: calls piece(first byte, bytes) for consecutive
// pieces that fit.
template <typename Piece>
void ForEachPiece(int64_t bytes, const Piece& piece) {
  constexpr int64_t kPieceBytes = int64_t{1} << 30;
  for (int64_t first = 0; first < bytes; first += kPieceBytes) {
    piece(first, static_cast<int>(bytes - first < kPieceBytes ? bytes - first : kPieceBytes));
  }
}

inline int RankIn(MPI_Comm comm) {
  int rank = 0;
  CheckMpi(Mpi().Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

inline int SizeOf(MPI_Comm comm) {
  int size = 0;
  CheckMpi(Mpi().Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

// Duplicates `comm`, so that messages of the two are kept apart. All ranks of `comm` call.
inline MPI_Comm Duplicate(MPI_Comm comm) {
  MPI_Comm copy;
  CheckMpi(Mpi().Comm_dup(comm, &copy), "MPI_Comm_dup");
  return copy;
}

}  // namespace plimsoll::runtime
