#include "runtime/ranks/mpi_world.h"

#include <dlfcn.h>
#include <link.h>

#include "base/error.h"
#include "runtime/ranks/mpi_communicator.h"
#include "runtime/ranks/mpi_library.h"

namespace plimsoll::runtime {
namespace {

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

 private:
  OwnedMpiComm comm_;
  int rank_;
  int size_;
};

using ShowHelp = int (*)(const char* file, const char* topic, int error_header, ...);

int ShowNothing(const char* /*file*/, const char* /*topic*/, int /*error_header*/, ...) {
  return MPI_SUCCESS;
}

// Keeps MPI_Abort from printing eight lines below our own message that says why it is called. Open
// MPI prints them through a function pointer of this name; other MPIs have no such name.
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
  // Programs may run on another thread than this one, but there are never two calls at once:
  // workers of the thread pool, readers of data and writers of snapshots don't use MPI.
  int provided = MPI_THREAD_SINGLE;
  CheckMpi(Mpi().Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided),
           "MPI_Init_thread");
  // Failures are returned as codes instead of ending the process without a message of ours.
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
