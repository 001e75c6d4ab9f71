#include "base/message.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <span>

#include "base/errno_text.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/write_all.h"

namespace plimsoll {
namespace {

std::atomic<bool> silent = false;

bool Write(int descriptor, std::string_view text) {
  return WriteAll(descriptor, std::as_bytes(std::span(text)));
}

// Writes a line in one call, so that lines of several ranks and threads don't mix.
void WriteLine(std::string_view start, std::string_view rest) {
  std::string line(start);
  line += rest;
  line += '\n';
  Write(STDERR_FILENO, line);
}

std::string Colored(std::string_view text, Terminal::Style style) {
  return Terminal::Of(STDERR_FILENO).Styled(text, style);
}

}  // namespace

void PrintError(std::string_view line) { WriteLine(Colored(line, Terminal::Style::kRed), ""); }

void PrintWarning(std::string_view line) {
  WriteLine(Colored("warning:", Terminal::Style::kYellow) + " ", line);
}

void PrintNote(std::string_view text) { Write(STDERR_FILENO, text); }

void PrintProgress(std::string_view text) {
  if (!silent) Write(STDOUT_FILENO, text);
}

void SilenceProgress() { silent = true; }

void PrintAnswer(std::string_view text) {
  if (Write(STDOUT_FILENO, text)) return;
  const int error = errno;
  if (error == EPIPE) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
  }
  throw UserError("standard output: cannot be written: " + ErrnoText(error), ExitCode::kInternal);
}

void ReserveStandardStreams() {
  // open() takes the lowest free number. The stream is opened in the wrong direction, so that using
  // it still fails.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) {
      open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

void SendOutputTo(const std::string& path, bool append) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0666);
  if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
    const int error = errno;
    if (file >= 0) close(file);
    throw UserError(path + ": cannot write (" + ErrnoText(error) + ")");
  }
  close(file);
}

}  // namespace plimsoll
