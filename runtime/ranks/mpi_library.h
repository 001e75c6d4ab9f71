// Open MPI's library. It is loaded only if a launcher has started several ranks: a program that
// runs alone needs no MPI on its machine.
#pragma once

#include <mpi.h>

namespace plimsoll::runtime {

// The functions and handles of MPI that we use. Functions have their names without MPI_. Handles
// are addresses of variables in the library: mpi.h's own macros (MPI_COMM_WORLD, MPI_BYTE, …) would
// need the library when the program starts.
class MpiLibrary {
 public:
  // Loads the library at the first call; it stays until the end of the process. Throws a UserError
  // if the library isn't found.
  static const MpiLibrary& Get();

 private:
  // A symbol of the library, as a pointer of any type.
  struct Symbol {
    template <typename T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<T*>(address);
    }
    void* address;
  };

  MpiLibrary();
  Symbol Find(const char* name) const;

  void* const library_;

 public:
  decltype(&MPI_Abort) const Abort = Find("MPI_Abort");
  decltype(&MPI_Barrier) const Barrier = Find("MPI_Barrier");
  decltype(&MPI_Bcast) const Bcast = Find("MPI_Bcast");
  decltype(&MPI_Comm_dup) const Comm_dup = Find("MPI_Comm_dup");
  decltype(&MPI_Comm_free) const Comm_free = Find("MPI_Comm_free");
  decltype(&MPI_Comm_rank) const Comm_rank = Find("MPI_Comm_rank");
  decltype(&MPI_Comm_set_errhandler) const Comm_set_errhandler = Find("MPI_Comm_set_errhandler");
  decltype(&MPI_Comm_size) const Comm_size = Find("MPI_Comm_size");
  decltype(&MPI_Comm_split) const Comm_split = Find("MPI_Comm_split");
  decltype(&MPI_Comm_split_type) const Comm_split_type = Find("MPI_Comm_split_type");
  decltype(&MPI_Error_string) const Error_string = Find("MPI_Error_string");
  decltype(&MPI_Finalize) const Finalize = Find("MPI_Finalize");
  decltype(&MPI_Finalized) const Finalized = Find("MPI_Finalized");
  decltype(&MPI_Get_count) const Get_count = Find("MPI_Get_count");
  decltype(&MPI_Init_thread) const Init_thread = Find("MPI_Init_thread");
  decltype(&MPI_Irecv) const Irecv = Find("MPI_Irecv");
  decltype(&MPI_Isend) const Isend = Find("MPI_Isend");
  decltype(&MPI_Issend) const Issend = Find("MPI_Issend");
  decltype(&MPI_Recv) const Recv = Find("MPI_Recv");
  decltype(&MPI_Send) const Send = Find("MPI_Send");
  decltype(&MPI_Wait) const Wait = Find("MPI_Wait");
  decltype(&MPI_Waitall) const Waitall = Find("MPI_Waitall");

  const MPI_Comm world = Find("ompi_mpi_comm_world");
  const MPI_Datatype byte = Find("ompi_mpi_byte");
  const MPI_Datatype int32 = Find("ompi_mpi_int");
  const MPI_Datatype int64 = Find("ompi_mpi_int64_t");
  const MPI_Errhandler errors_return = Find("ompi_mpi_errors_return");
  const MPI_Info no_info = Find("ompi_mpi_info_null");
  const MPI_Request no_request = Find("ompi_request_null");
};

inline const MpiLibrary& Mpi() { return MpiLibrary::Get(); }

// Checks the result of a call of MPI: does nothing on success; otherwise throws an InternalError
// with the call's name ("MPI_Bcast") and MPI's message.
void CheckMpi(int status, const char* call);

}  // namespace plimsoll::runtime
