#include "runtime/ranks/mpi_stage_link.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "runtime/ranks/mpi_comm.h"
#include "runtime/ranks/mpi_library.h"

namespace plimsoll::runtime {
namespace {

bool SendsAreSynchronous() {
  const char* const value = std::getenv("PLIMSOLL_SYNCHRONOUS_SENDS");
  return value != nullptr && std::string_view(value) == "1";
}

class MpiStageLink : public StageLink {
 public:
  MpiStageLink(MPI_Comm stages, std::vector<int64_t> ranks)
      : StageLink(RankIn(stages), std::move(ranks)),
        down_(Duplicate(stages)),
        up_(Duplicate(stages)),
        send_(SendsAreSynchronous() ? Mpi().Issend : Mpi().Isend),
        send_name_(SendsAreSynchronous() ? "MPI_Issend" : "MPI_Isend"),
        in_flight_(slots()) {
    for (const Way way : {Way::kSend, Way::kReceive}) {
      for (const LinkDirection direction : {LinkDirection::kDown, LinkDirection::kUp}) {
        for (int64_t slot = 0; slot < slots(); ++slot) {
          in_flight_.At(way, direction, slot).reserve(kUsualPieces);
        }
      }
    }
  }

 private:
  // Pieces of a message of 4 GiB. Space for this number is reserved at the start.
  static constexpr size_t kUsualPieces = 4;

  struct Piece {
    MPI_Request request;
    int bytes;
  };

  MPI_Comm CommOf(const Transfer& transfer) const {
    return (transfer.message.direction == LinkDirection::kDown ? down_ : up_).get();
  }

  // The tag that tells a receiver the micro-batch. MPI guarantees 15 bits.
  static int TagOf(const Transfer& transfer) {
    return static_cast<int>(transfer.message.micro_batch & 0x7fff);
  }

  void DoStartSend(const Transfer& transfer, std::span<const std::byte> bytes) override {
    std::vector<Piece>& pieces = in_flight_.At(transfer);
    pieces.clear();
    ForEachPiece(std::ssize(bytes), [&](int64_t first, int length) {
      pieces.push_back({Mpi().no_request, length});
      CheckMpi(send_(bytes.data() + first, length, Mpi().byte, PeerOf(transfer), TagOf(transfer),
                     CommOf(transfer), &pieces.back().request),
               send_name_);
    });
  }

  // Receives the next message of any tag: a message out of order would otherwise never be received.
  void DoStartReceive(const Transfer& transfer, std::span<std::byte> bytes) override {
    std::vector<Piece>& pieces = in_flight_.At(transfer);
    pieces.clear();
    ForEachPiece(std::ssize(bytes), [&](int64_t first, int length) {
      pieces.push_back({Mpi().no_request, length});
      CheckMpi(Mpi().Irecv(bytes.data() + first, length, Mpi().byte, PeerOf(transfer), MPI_ANY_TAG,
                           CommOf(transfer), &pieces.back().request),
               "MPI_Irecv");
    });
  }

  void DoAwait(const Transfer& transfer) override {
    for (Piece& piece : in_flight_.At(transfer)) {
      MPI_Status status;
      CheckMpi(Mpi().Wait(&piece.request, &status), "MPI_Wait");
      if (transfer.way == Way::kReceive) CheckReceived(transfer, piece, status);
    }
  }

  static void CheckReceived(const Transfer& transfer, const Piece& piece,
                            const MPI_Status& status) {
    if (status.MPI_TAG != TagOf(transfer)) {
      throw InternalError(fmt::format("micro-batch {} came", status.MPI_TAG));
    }
    int bytes = 0;
    CheckMpi(Mpi().Get_count(&status, Mpi().byte, &bytes), "MPI_Get_count");
    if (bytes != piece.bytes) {
      throw InternalError(fmt::format("{} bytes came, not {}", bytes, piece.bytes));
    }
  }

  OwnedMpiComm down_, up_;
  decltype(&MPI_Isend) send_;
  const char* send_name_;
  PerSlot<std::vector<Piece>> in_flight_;
};

}  // namespace

std::unique_ptr<StageLink> MakeMpiStageLink(MPI_Comm stages, std::vector<int64_t> ranks) {
  return std::make_unique<MpiStageLink>(stages, std::move(ranks));
}

}  // namespace plimsoll::runtime
