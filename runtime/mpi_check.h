// Every call of MPI is checked by this.
#pragma once

namespace plimsoll::runtime {

// Nothing on success; otherwise an InternalError with the call's name ("MPI_Bcast") and what MPI
// says of it.
void CheckMpi(int status, const char* call);

}  // namespace plimsoll::runtime
