#include "runtime/ranks/mpi_world.h"

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/collectives/communicator.h"
#include "runtime/ranks/mpi_comm.h"
#include "runtime/ranks/mpi_library.h"
#include "runtime/ranks/mpi_stage_link.h"
#include "runtime/ranks/rank_reduction.h"

namespace plimsoll::runtime {
namespace {

// Scratch memory, divided among the parts of all ranks. It is small, since a part that arrives from
// a peer is read again soon.
constexpr int64_t kScratchBytes = int64_t{4} << 20;

// The tag of all messages. One tag is enough: messages between a pair of ranks arrive in the order
// in which they were sent.
constexpr int kTag = 0;

std::byte* Bytes(void* data) { return static_cast<std::byte*>(data); }
const std::byte* Bytes(const void* data) { return static_cast<const std::byte*>(data); }

// Collectives between CPUs through MPI. MPI only transfers pieces, and this class reduces them, so
// that elements are added in the order of the ranks, whatever order MPI would choose.
class MpiCommunicator : public ops::Communicator {
 public:
  // Duplicates `comm` and uses its ranks, at least two. All of them call.
  explicit MpiCommunicator(MPI_Comm comm)
      : Communicator(RankIn(comm), SizeOf(comm)),
        comm_(Duplicate(comm)),
        scratch_(std::make_unique<std::byte[]>(kScratchBytes)) {
    requests_.reserve(2 * static_cast<size_t>(size()));
  }

  void Barrier() override { CheckMpi(Mpi().Barrier(comm_.get()), "MPI_Barrier"); }

 private:
  void DoAllReduce(const void* from, void* to, int64_t count, graph::DType dtype,
                   ops::Reduction reduction, void* /*stream*/) override {
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

  void DoAllGather(const void* from, void* to, int64_t bytes, void* /*stream*/) override {
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

  void DoReduceScatter(const void* from, void* to, int64_t count, graph::DType dtype,
                       ops::Reduction reduction, void* /*stream*/) override {
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

  void DoBroadcast(void* data, int64_t bytes, int root, void* /*stream*/) override {
    ForEachPiece(bytes, [&](int64_t first, int length) {
      CheckMpi(Mpi().Bcast(Bytes(data) + first, length, Mpi().byte, root, comm_.get()),
               "MPI_Bcast");
    });
  }

  void DoSend(const void* data, int64_t bytes, int peer, void* /*stream*/) override {
    ForEachPiece(bytes, [&](int64_t first, int length) {
      CheckMpi(Mpi().Send(Bytes(data) + first, length, Mpi().byte, peer, kTag, comm_.get()),
               "MPI_Send");
    });
  }

  void DoReceive(void* data, int64_t bytes, int peer, void* /*stream*/) override {
    ForEachPiece(bytes, [&](int64_t first, int length) {
      CheckMpi(Mpi().Recv(Bytes(data) + first, length, Mpi().byte, peer, kTag, comm_.get(),
                          MPI_STATUS_IGNORE),
               "MPI_Recv");
    });
  }

  // Starts to send at most 1 GiB to a rank. The message is in flight until WaitForAll().
  void StartSend(const std::byte* data, int64_t bytes, int peer) {
    if (bytes == 0) return;
    CheckMpi(Mpi().Isend(data, static_cast<int>(bytes), Mpi().byte, peer, kTag, comm_.get(),
                         &requests_.emplace_back(Mpi().no_request)),
             "MPI_Isend");
  }

  void StartReceive(std::byte* data, int64_t bytes, int peer) {
    if (bytes == 0) return;
    CheckMpi(Mpi().Irecv(data, static_cast<int>(bytes), Mpi().byte, peer, kTag, comm_.get(),
                         &requests_.emplace_back(Mpi().no_request)),
             "MPI_Irecv");
  }

  void WaitForAll() {
    CheckMpi(
        Mpi().Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
        "MPI_Waitall");
    requests_.clear();
  }

  // Number of elements that fit in each rank's part of the scratch memory.
  int64_t PieceElements(graph::DType dtype) const {
    return std::max<int64_t>(1, kScratchBytes / size() / graph::ByteSize(dtype));
  }

  OwnedMpiComm comm_;
  std::unique_ptr<std::byte[]> scratch_;
  std::vector<MPI_Request> requests_;
};

class MpiGroup : public RankGroup {
 public:
  explicit MpiGroup(MPI_Comm comm) : comm_(comm), rank_(RankIn(comm)), size_(SizeOf(comm)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string Broadcast(std::string_view text, int root) override {
    auto length = static_cast<int64_t>(text.size());
    CheckMpi(Mpi().Bcast(&length, 1, Mpi().int64, root, comm_.get()), "MPI_Bcast");
    std::string result(rank_ == root ? text : std::string_view());
    result.resize(static_cast<size_t>(length));
    ForEachPiece(length, [&](int64_t first, int bytes) {
      CheckMpi(Mpi().Bcast(result.data() + first, bytes, Mpi().byte, root, comm_.get()),
               "MPI_Bcast");
    });
    return result;
  }

  std::vector<std::string> Gather(std::string_view text) override {
    std::vector<std::string> texts;
    for (int root = 0; root < size_; ++root) texts.push_back(Broadcast(text, root));
    return texts;
  }

  void Barrier() override { CheckMpi(Mpi().Barrier(comm_.get()), "MPI_Barrier"); }

  std::unique_ptr<RankGroup> Split(int color, int key) override {
    MPI_Comm part;
    CheckMpi(Mpi().Comm_split(comm_.get(), color, key, &part), "MPI_Comm_split");
    return std::make_unique<MpiGroup>(part);
  }

  std::unique_ptr<ops::Communicator> MakeCpuCommunicator() override {
    if (size_ == 1) return MakeGroupOfOne()->MakeCpuCommunicator();
    return std::make_unique<MpiCommunicator>(comm_.get());
  }

  std::unique_ptr<StageLink> MakeCpuStageLink(std::vector<int64_t> ranks) override {
    return MakeMpiStageLink(comm_.get(), std::move(ranks));
  }

 private:
  OwnedMpiComm comm_;
  int rank_;
  int size_;
};

using ShowHelp = int (*)(const char* file, const char* topic, int error_header, ...);

int ShowNothing(const char* /*file*/, const char* /*topic*/, int /*error_header*/, ...) {
  return MPI_SUCCESS;
}

// Keeps MPI_Abort from printing eight lines after our own message, which says why it is called.
// Open MPI prints them through a function pointer of this name; other MPIs have no such name.
void SilenceAbort() {
  void* const show = dlsym(RTLD_DEFAULT, "opal_show_help");
  Dl_info info;
  ElfW(Sym)* symbol = nullptr;
  if (show == nullptr ||
      dladdr1(show, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
      symbol->st_size != sizeof(ShowHelp)) {
    return;
  }
  *static_cast<ShowHelp*>(show) = &ShowNothing;
}

}  // namespace

MpiRanks StartMpi() {
  // Programs may run on another thread than this one, but two threads never call MPI at once:
  // workers of the thread pool, readers of data and writers of snapshots don't use MPI.
  int provided = MPI_THREAD_SINGLE;
  CheckMpi(Mpi().Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
           "MPI_Init_thread");
  // Failures are returned as codes, so that the process ends with our own message.
  CheckMpi(Mpi().Comm_set_errhandler(Mpi().world, Mpi().errors_return), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_SERIALIZED) {
    throw UserError(
        "mpirun: this MPI cannot be called from several threads in turn (MPI_THREAD_SERIALIZED); "
        "use one built with threads");
  }
  MPI_Comm neighbours;
  CheckMpi(Mpi().Comm_split_type(Mpi().world, MPI_COMM_TYPE_SHARED, 0, Mpi().no_info, &neighbours),
           "MPI_Comm_split_type");
  const OwnedMpiComm freed_at_the_end(neighbours);
  int leader = RankIn(Mpi().world);
  CheckMpi(Mpi().Bcast(&leader, 1, Mpi().int32, 0, neighbours), "MPI_Bcast");
  return {std::make_unique<MpiGroup>(Duplicate(Mpi().world)), RankIn(neighbours),
          SizeOf(neighbours), leader};
}

void FinishMpi() { CheckMpi(Mpi().Finalize(), "MPI_Finalize"); }

void AbortMpi(int code) {
  SilenceAbort();
  Mpi().Abort(Mpi().world, code);
}

}  // namespace plimsoll::runtime
