#include "tests/trainer/run_plimsoll.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll {

namespace {

constexpr char kProgram[] = "app/plimsoll";

pid_t Start(const std::string& program, const std::vector<std::string>& arguments,
            const std::string& folder) {
  const std::string out = folder + "/out", err = folder + "/err";
  std::vector<char*> argv;
  std::vector<std::string> copies = arguments;
  copies.insert(copies.begin(), program);
  // The child chooses kernels as this process does (tests/support/test_device.h).
  const char* const acted = std::getenv("PLIMSOLL_TEST_ACT_AS");
  if (acted != nullptr && program == kProgram && !arguments.empty() && arguments[0] == "train") {
    copies.insert(copies.end(), {"--set", "debug.act_as=" + std::string(acted)});
  }
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const pid_t child = fork();
  if (child == 0) {
    const int to_out = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int to_err = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(to_out, STDOUT_FILENO);
    dup2(to_err, STDERR_FILENO);
    setenv("PLIMSOLL", kProgram, 1);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  return child;
}

Outcome Run(const std::string& program, const std::vector<std::string>& arguments) {
  const TempFolder folder;
  const pid_t child = Start(program, arguments, folder.path());
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(folder / "out"),
          ReadFile(folder / "err"), static_cast<int64_t>(usage.ru_maxrss) * 1024};
}

}  // namespace

pid_t StartPlimsoll(const std::vector<std::string>& arguments, const std::string& folder) {
  return Start(kProgram, arguments, folder);
}

Outcome RunPlimsoll(const std::vector<std::string>& arguments) { return Run(kProgram, arguments); }

Outcome ExpectExit(int exit_code, Outcome outcome, std::initializer_list<std::string_view> parts) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err << outcome.out;
  ExpectText(outcome.err, parts);
  return outcome;
}

void ExpectRefusal(const Outcome& outcome, const std::vector<std::string>& parts) {
  ExpectExit(2, outcome);
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& part : parts) ExpectText(outcome.err, {part});
}

std::vector<std::string> WithSets(std::vector<std::string> arguments,
                                  const std::vector<std::string>& sets,
                                  const std::vector<std::string>& more) {
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<nlohmann::json> JsonLines(const std::string& text) {
  std::vector<nlohmann::json> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) values.push_back(nlohmann::json::parse(line));
  return values;
}

Outcome RunShell(const std::string& script) { return Run("bash", {"-c", script}); }

}  // namespace plimsoll
