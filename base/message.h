// The only place that writes to standard output and standard error. What is said by the way is lost
// where it cannot be written, and changes nothing; an answer has to arrive.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// Lines on standard error: why the program ends, and "warning: …" of what it goes on with; on a
// terminal in red and yellow.
void PrintError(std::string_view line);
void PrintWarning(std::string_view line);

// On standard error, beside an answer: what a command is doing. The text as it is.
void PrintNote(std::string_view text);

// On standard output: how work goes on whose result are files. The text as it is.
void PrintProgress(std::string_view text);

// On standard output: what the command was asked for, as it is. UserError (kInternal) when it
// cannot be written; when its reader has gone, the process ends as others do, quietly by SIGPIPE.
void PrintAnswer(std::string_view text);

// From here on PrintProgress prints nothing.
void SilenceProgress();

// For the start of main(), before any file is opened: a file must not become standard output or
// error because its number was free. Writing to one that was closed still fails.
void ReserveStandardStreams();

// From here on standard output goes to this file, which is made anew unless `append`. UserError
// when it cannot be opened.
void SendOutputTo(const std::string& path, bool append);

}  // namespace plimsoll
