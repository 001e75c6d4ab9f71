// The only code that writes to standard output and standard error. Messages that cannot be written
// are silently lost, but an answer that cannot be written is an error.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Print a line to standard error. An error says why the program ends; a warning ("warning: …") is
// about something that doesn't end it. On a terminal they are red and yellow.
void PrintError(std::string_view line);
void PrintWarning(std::string_view line);

// Prints to standard error, separately from the answer, what a command is doing. The text is
// unchanged.
void PrintNote(std::string_view text);

// Prints to standard output the progress of work whose results are files. The text is unchanged.
void PrintProgress(std::string_view text);

// Prints the command's answer to standard output, unchanged. Throws UserError (kInternal) if it
// cannot be written. If its reader has gone, SIGPIPE ends the process quietly, as usual.
void PrintAnswer(std::string_view text);

// Makes later calls of PrintProgress print nothing.
void SilenceProgress();

// Call this at the start of main(), before any file is opened: otherwise a file could get the
// number of a closed standard stream. Writing to a closed standard stream still fails.
void ReserveStandardStreams();

// Redirects standard output to this file, which is created anew unless `append`. Throws a UserError
// if the file cannot be opened.
void SendOutputTo(const std::string& path, bool append);

}  // namespace plimsoll
