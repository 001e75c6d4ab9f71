// The only code that writes to standard output and standard error. Messages that cannot be written
// are lost without further effect, but an answer has to arrive.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Print a line to standard error: why the program ends, or "warning: …" about something despite
// which it goes on; on a terminal in red and yellow.
void PrintError(std::string_view line);
void PrintWarning(std::string_view line);

// Prints to standard error, besides an answer: what a command is doing. The text is unchanged.
void PrintNote(std::string_view text);

// Prints to standard output the progress of work whose results are files. The text is unchanged.
void PrintProgress(std::string_view text);

// Prints to standard output what the command was asked for, unchanged. Throws UserError (kInternal)
// when it cannot be written; when its reader has gone, SIGPIPE ends the process quietly, as usual.
void PrintAnswer(std::string_view text);

// After this call PrintProgress prints nothing.
void SilenceProgress();

// Call it at the start of main(), before any file is opened: otherwise a file could get the number
// of a closed standard stream. Writing to a closed one still fails.
void ReserveStandardStreams();

// Redirects standard output to this file, which is created anew unless `append`. Throws UserError
// when it cannot be opened.
void SendOutputTo(const std::string& path, bool append);

}  // namespace plimsoll
