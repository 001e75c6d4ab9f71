// Checks the result of every call of MPI.
#pragma once

namespace plimsoll::runtime {

// Does nothing on success; otherwise throws an InternalError with the call's name ("MPI_Bcast") and
// MPI's message.
void CheckMpi(int status, const char* call);

}  // namespace plimsoll::runtime
