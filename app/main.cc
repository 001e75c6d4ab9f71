// The program: runs the command that its arguments name (commands.h), and reports errors.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "app/commands.h"
#include "base/error.h"
#include "base/message.h"
#include "base/spelling.h"
#include "base/version.h"
#include "runtime/ranks/world.h"
#include "trainer/config/run_config.h"
#include "trainer/resolve/core_share.h"

namespace plimsoll::trainer {
namespace {

constexpr std::string_view kNoMemory =
    "the system gives no more memory (free -h; ulimit -v; a container's limit)";

// Ends the process when memory is missing: unwinding would allocate more, in functions that may not
// fail. This function itself allocates nothing.
[[noreturn]] void EndWithoutMemory() {
  for (const std::string_view text : {kNoMemory, std::string_view("\n")}) {
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  _exit(static_cast<int>(ExitCode::kInternal));
}

class CommandLine {
 public:
  explicit CommandLine(runtime::World& world) : world_(world) {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", fmt::format("plimsoll {} ({})", Version(), Commit()));
    AddTrain(app_, world_, end_);
    AddPlan(app_, world_, end_);
    AddAblate(app_, world_);
    AddReport(app_);
    AddEval(app_);
    AddGenerate(app_);
    AddPredict(app_);
    AddInspect(app_);
    AddExport(app_);
    AddData(app_);
    AddConfig(app_, world_);
    AddRuns(app_);
    AddInfo(app_);
    AddDocs(app_);
    AddWords();
    RefuseEmptyNames(app_);
  }

  // Runs the command line and returns the exit code.
  int Run(int argc, char** argv) {
    try {
      std::vector<std::string> arguments = Arguments(argc, argv);
      const std::string command = arguments.empty() ? "" : arguments.front();
      RefuseUnknownCommand(command);
      RequireSameCommand(command);
      std::ranges::reverse(arguments);  // CLI11 expects the arguments in reverse order
      app_.parse(arguments);
      if (end_ != ExitCode::kDone && world_.size() > 1) {
        world_.Barrier();  // waits until all ranks have printed their output
        world_.Abort(static_cast<int>(end_));
      }
      return static_cast<int>(end_);
    } catch (const CLI::ParseError& error) {
      return End(error);
    } catch (const UserError& error) {
      return Fail(error.what(), error.code());
    } catch (const std::bad_alloc&) {  // thrown by a library that allocates memory by itself
      return Fail(std::string(kNoMemory), ExitCode::kInternal);
    } catch (const std::system_error& error) {
      const bool threads = error.code() == std::errc::resource_unavailable_try_again;
      return Fail(threads
                      ? "the system starts no more threads (ulimit -u and -v; a container's limit)"
                      : error.what(),
                  ExitCode::kInternal);
    } catch (const std::exception& error) {
      return Fail(fmt::format("internal error: {}", error.what()), ExitCode::kInternal);
    }
  }

 private:
  // Refuses empty names of folders: a shell variable without a value would otherwise mean the
  // current folder.
  static void RefuseEmptyNames(CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
      if (!option->get_positional() && option->get_name() != "--out") continue;
      option->check(CLI::Validator(
          [](const std::string& value) { return value.empty() ? "is empty; name one" : ""; }, ""));
    }
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
      RefuseEmptyNames(*command);
    }
  }

  // Prints what CLI11 reports and returns the exit code. Help and version also end here, with code
  // 0.
  int End(const CLI::ParseError& error) const {
    std::ostringstream answer, message;
    if (app_.exit(error, answer, message) != 0) {
      std::string text = message.str();
      while (text.ends_with('\n')) text.pop_back();
      return Fail(text, ExitCode::kUserMistake);
    }
    try {
      PrintAnswer(answer.str());
    } catch (const UserError& problem) {
      return Fail(problem.what(), problem.code());
    }
    return static_cast<int>(ExitCode::kDone);
  }

  // The message with long words cut in their middle, such as a value that CLI11 quotes.
  static std::string WithShortWords(const std::string& message) {
    constexpr size_t kLong = 300;
    std::string text, word;
    for (const char c : message + ' ') {
      if (c != ' ' && c != '\n') {
        word += c;
        continue;
      }
      text += (word.size() > kLong ? Shortened(word) : word) + c;
      word.clear();
    }
    text.pop_back();
    return text;
  }

  // Reports an error and ends the program. With several ranks, the first rank that fails ends all
  // ranks. An error that is the same on all ranks is printed once: the other ranks wait until rank
  // 0 has printed it.
  int Fail(const std::string& message, ExitCode code) const {
    const int rank = world_.rank();
    if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    PrintError(fmt::format("{}{}", rank > 0 ? fmt::format("rank {}: ", rank) : "",
                           WithShortWords(message)));
    if (world_.size() > 1) {
      // Waits for the output: what is still in a pipe when its rank ends is lost.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world_.Abort(static_cast<int>(code));
    }
    return static_cast<int>(code);
  }

  void RefuseUnknownCommand(const std::string& name) const {
    if (name.empty() || name.starts_with('-')) return;
    std::string known;
    for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
      if (command->get_name() == name) return;
      known += (known.empty() ? "" : ", ") + command->get_name();
    }
    throw UserError(fmt::format("plimsoll {}: unknown command; there are {}", name, known));
  }

  // Whether an argument is a key and its value (KEY=VALUE), as arguments after --set are.
  static bool IsSetting(std::string_view argument) {
    const size_t end = argument.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.");
    return end != 0 && end != argument.npos && argument[end] == '=';
  }

  // The arguments in CLI11's form. The words `help` and `version`, before a command or alone,
  // become flags. One --set may have several values here: each value gets its own --set.
  static std::vector<std::string> Arguments(int argc, char** argv) {
    std::vector<std::string> arguments;
    bool sets = false;
    for (const std::string_view argument : std::span(argv + std::min(argc, 1), argv + argc)) {
      if (sets && IsSetting(argument) && arguments.back() != "--set") arguments.push_back("--set");
      sets = argument == "--set" || (sets && IsSetting(argument));
      arguments.emplace_back(argument);
    }
    const std::string word = arguments.empty() ? "" : arguments.front();
    if (word == "help" || word == "version") {
      arguments.erase(arguments.begin());
      arguments.push_back("--" + word);
    }
    return arguments;
  }

  // Throws if ranks have different commands: such ranks would wait for each other forever. Of all
  // commands, only `train` needs the other ranks afterwards.
  void RequireSameCommand(const std::string& command) const {
    const std::vector<std::string> all = world_.Gather(command);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      throw UserError(fmt::format(
          "mpirun: rank 0 was started as `plimsoll {}` and rank {} as `plimsoll {}`; start every "
          "rank with the same command",
          all[0], rank, all[rank]));
    }
    if (command != "train") world_.StopWatching();
  }

  // Adds `help` and `version` to the list of commands; Arguments() handles the words themselves.
  void AddWords() {
    app_.add_subcommand("help", "what plimsoll, or one of its commands, can do: help train");
    app_.add_subcommand("version", "this version and its commit");
  }

  runtime::World& world_;
  CLI::App app_{"Plimsoll trains deep networks inside a stated memory budget.", "plimsoll"};
  ExitCode end_ = ExitCode::kDone;
};

}  // namespace
}  // namespace plimsoll::trainer

int main(int argc, char** argv) {
  plimsoll::ReserveStandardStreams();
  std::set_new_handler(&plimsoll::trainer::EndWithoutMemory);
  // `bazel run` starts programs in another folder; relative paths start at the caller's folder.
  if (const char* directory = std::getenv("BUILD_WORKING_DIRECTORY")) {
    std::error_code error;
    std::filesystem::current_path(directory, error);
  }
  // With SIGXFSZ ignored, exceeding a limit on file sizes is an error that names the file, like a
  // full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  // With SIGPIPE ignored, training continues when nobody reads its output any more.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    // This timeout applies until a run file sets another.
    plimsoll::runtime::World world(plimsoll::config::ParallelConfig{}.timeout);
    world.ChooseOwnGpu();
    plimsoll::trainer::ShareCores(world);
    // Only rank 0 prints to the terminal; other ranks get log files once the run has a folder.
    if (world.rank() > 0) plimsoll::SendOutputTo("/dev/null", /*append=*/true);
    return plimsoll::trainer::CommandLine(world).Run(argc, argv);
  } catch (const std::exception& error) {
    plimsoll::PrintError(error.what());
    return static_cast<int>(plimsoll::ExitCode::kInternal);
  }
}
