#include "studies/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "base/error.h"

namespace plimsoll::studies {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kNoProgram = 127;  // the shell's exit code for a missing program

// The texts as exec takes them: an array of pointers that ends with a null.
std::vector<char*> PointersTo(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Runs in the child between fork and exec; nothing here may allocate.
[[noreturn]] void Become(char* const* arguments, char* const* environment, const char* out,
                         const char* error) {
  setpgid(0, 0);
  // If this program is killed, the child must not continue.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  for (const int stop : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) signal(stop, SIG_DFL);
  const int none = open("/dev/null", O_RDONLY);
  const int to_out = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  const int to_error = open(error, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (none >= 0 && to_out >= 0 && to_error >= 0 && dup2(none, STDIN_FILENO) >= 0 &&
      dup2(to_out, STDOUT_FILENO) >= 0 && dup2(to_error, STDERR_FILENO) >= 0) {
    execvpe(arguments[0], arguments, environment);
    char reason[] = ": cannot be started\n";
    const iovec message[] = {{arguments[0], strlen(arguments[0])}, {reason, strlen(reason)}};
    if (writev(STDERR_FILENO, message, 2) < 0) _exit(kNoProgram);
  }
  _exit(kNoProgram);
}

}  // namespace

Process::Process(const ProcessOptions& options) {
  std::vector<std::string> arguments = options.arguments, environment;
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool replaced = std::ranges::any_of(options.environment, [&](const auto& other) {
      return std::string_view(*variable).starts_with(other.first + "=");
    });
    if (!replaced) environment.emplace_back(*variable);
  }
  const std::vector<char*> argv = PointersTo(arguments), envp = PointersTo(environment);
  pid_ = fork();
  if (pid_ == 0) Become(argv.data(), envp.data(), options.out.c_str(), options.error.c_str());
  const int reason = errno;
  if (pid_ < 0) {
    throw UserError(fmt::format("{}: cannot be started: {}", arguments[0], std::strerror(reason)),
                    ExitCode::kInternal);
  }
  setpgid(pid_, pid_);  // both processes call this, as either may run first
}

Process::~Process() {
  if (!Poll()) End(0);
}

std::optional<ProcessEnd> Process::Poll() {
  if (end_) return end_;
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  // Also kills the processes that the child started. The group id stays reserved until the child is
  // waited for.
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  end_.emplace();
  if (WIFEXITED(status)) end_->exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end_->signal = WTERMSIG(status);
  return end_;
}

void Process::End(double patience_seconds) {
  kill(-pid_, SIGTERM);
  const auto deadline = Clock::now() + std::chrono::duration<double>(patience_seconds);
  while (!Poll() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(-pid_, SIGKILL);
  while (!Poll()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace plimsoll::studies
