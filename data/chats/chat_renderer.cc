#include "data/chats/chat_renderer.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/chats/render_chats_script.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

using Json = nlohmann::json;

constexpr const char* kInstall = "install it: apt install python3-jinja2, or pip install jinja2";
// The limit on wall-clock time is this many times the limit on processor time. It ends a process
// that sleeps or gets no processor.
constexpr int64_t kPatience = 30;

// The special tokens, as the variables that templates read: "bos_token" and the like.
Json VariablesOf(const Tokenizer& tokenizer) {
  Json variables = Json::object();
  for (const auto& [role, id] : tokenizer.facts().named) {
    std::string token;
    tokenizer.Decode(id, &token);
    variables[role] = std::move(token);
  }
  return variables;
}

}  // namespace

// The child process. One socket is its standard input and output; its standard error is a file in
// memory.
struct ChatRenderer::Child {
  pid_t pid = -1;
  int socket = -1;
  int errors = -1;

  ~Child() {
    if (socket >= 0) close(socket);  // the process ends when it can read no further line
    if (pid > 0) {
      kill(pid, SIGKILL);
      End();
    }
    if (errors >= 0) close(errors);
  }

  // Waits for the end of the process; returns the status that waitpid gives.
  int End() {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return status;
  }

  // The last line that the process wrote to its standard error.
  std::string LastWords() const {
    std::array<char, 4096> end;
    const off_t size = lseek(errors, 0, SEEK_END);
    const off_t from = size > std::ssize(end) ? size - std::ssize(end) : 0;
    const ssize_t read = pread(errors, end.data(), end.size(), from);
    std::string words(end.data(), read > 0 ? static_cast<size_t>(read) : 0);
    while (words.ends_with('\n')) words.pop_back();
    return formats::Printable(words.substr(words.rfind('\n') + 1));
  }
};

ChatRenderer::ChatRenderer(const ChatOptions& options, const Tokenizer& tokenizer,
                           const RenderLimits& limits)
    : template_(FindChatTemplate(options, tokenizer)),
      limits_(limits),
      child_(std::make_unique<Child>()) {
  const auto fail = [&](int error) {
    throw UserError(fmt::format("{}: python3, which renders chats, cannot be started: {}; {}",
                                template_.name, std::strerror(error), kInstall));
  };
  std::array<int, 2> ends = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail(errno);
  child_->socket = ends[0];
  child_->errors = memfd_create("errors", MFD_CLOEXEC);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, child_->errors, STDERR_FILENO);
  // The child gets a process group of its own, so that Ctrl-C interrupts this program only; the
  // child ends when this program ends.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, stops;
  sigemptyset(&none);
  sigemptyset(&stops);
  for (const int stop : {SIGTERM, SIGHUP, SIGPIPE, SIGXCPU}) sigaddset(&stops, stop);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &stops);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string program = "python3", isolated = "-I", command = "-c", script(RenderChatsScript());
  const std::array<char*, 5> arguments = {program.data(), isolated.data(), command.data(),
                                          script.data(), nullptr};
  const int error =
      posix_spawnp(&child_->pid, program.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  if (error != 0) {
    child_->pid = -1;
    fail(error);
  }

  const Json setup = {{"template", template_.text},
                      {"variables", VariablesOf(tokenizer)},
                      {"loss_on", options.loss_on == LossOn::kAll ? "all" : "assistant"},
                      {"text_limit", limits_.characters},
                      {"seconds", limits_.seconds},
                      {"memory", limits_.memory_bytes}};
  std::string line;
  try {
    line = setup.dump();
  } catch (const Json::exception&) {
    throw UserError(template_.name + ": is no UTF-8; save the template as UTF-8");
  }
  Send(line, "");
  const Json answer = formats::ParseJson(Receive(""), template_.name);
  if (answer.contains("ready")) return;
  if (answer.contains("missing")) {
    throw UserError(fmt::format("{}: chats are rendered by Python's jinja2, which is missing; {}",
                                template_.name, kInstall));
  }
  if (answer.contains("bad_date")) {
    throw UserError(fmt::format(
        "SOURCE_DATE_EPOCH: '{}' is no time in seconds since 1970; correct this variable of the "
        "environment, or unset it to render chats with today's date",
        formats::Printable(answer.at("bad_date").get<std::string>())));
  }
  const bool refused = answer.contains("refused");
  throw UserError(
      fmt::format("{}: is no chat template: {}; correct it", template_.name,
                  formats::Printable(answer.at(refused ? "refused" : "error").get<std::string>())));
}

ChatRenderer::~ChatRenderer() = default;

bool ChatRenderer::ended() const { return child_->pid < 0; }

bool ChatRenderer::dated() const {
  const char* const fixed = std::getenv("SOURCE_DATE_EPOCH");
  return template_.text.find("strftime_now") != template_.text.npos &&
         (fixed == nullptr || *fixed == '\0');
}

std::vector<TextPiece> ChatRenderer::Render(const Chat& chat, const std::string& where) {
  return Render(chat, /*answered=*/false, where);
}

std::string ChatRenderer::RenderPrompt(const Chat& chat, const std::string& where) {
  return Render(chat, /*answered=*/true, where).front().text;
}

std::vector<TextPiece> ChatRenderer::Render(const Chat& chat, bool answered,
                                            const std::string& where) {
  Json messages = Json::array();
  for (const ChatMessage& message : chat.messages) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  Json request = {{"messages", std::move(messages)}, {"prompt", chat.prompt}};
  if (chat.added_system) request["shows_system"] = true;
  if (!chat.variables.empty()) request["variables"] = Json::parse(chat.variables);
  if (answered) request["answered"] = true;
  Send(request.dump(), where);
  const Json answer = Json::parse(Receive(where));
  if (answer.contains("error")) {
    throw UserError(fmt::format(
        "{}: the chat template ({}) fails: {}; correct the chat, or give "
        "another template",
        where, template_.name, formats::Printable(answer.at("error").get<std::string>())));
  }
  if (answer.contains("refused")) {
    throw UserError(fmt::format("{}: the chat, by the template {}: {}", where, template_.name,
                                answer.at("refused").get<std::string>()));
  }
  std::vector<TextPiece> pieces;
  for (const Json& piece : answer.at("pieces")) {
    pieces.push_back({.text = piece.at(0).get<std::string>(), .carries_loss = piece.at(1)});
  }
  return pieces;
}

// The child reads a line before it writes one, so that neither waits for the other.
void ChatRenderer::Send(const std::string& line, const std::string& where) {
  const std::string sent = line + "\n";
  for (size_t at = 0; at < sent.size();) {
    const ssize_t count = send(child_->socket, sent.data() + at, sent.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      // The child may have written a line that says why it ended.
      if (where.empty()) return;
      FailAsEnded(where);
    }
    at += static_cast<size_t>(count);
  }
}

std::string ChatRenderer::Receive(const std::string& where) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(kPatience * limits_.seconds);
  size_t searched = 0;
  while (true) {
    const size_t end = received_.find('\n', searched);
    if (end != received_.npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    searched = received_.size();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait = {.fd = child_->socket, .events = POLLIN, .revents = 0};
    const int ready = left.count() <= 0 ? 0 : poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      kill(child_->pid, SIGKILL);  // a later answer would be taken for that to the next chat
      child_->End();
      throw UserError(fmt::format(
          "{}{}: the chat template was not done after {} s; give one that "
          "comes to an end",
          where.empty() ? "" : where + ": ", template_.name, kPatience * limits_.seconds));
    }
    std::array<char, size_t{64} << 10> bytes;
    const ssize_t count = recv(child_->socket, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) FailAsEnded(where);
    received_.append(bytes.data(), static_cast<size_t>(count));
  }
}

void ChatRenderer::FailAsEnded(const std::string& where) {
  const int status = child_->End();
  const std::string place = where.empty() ? "" : where + ": ";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    throw UserError(
        fmt::format("{}{}: the chat template takes more than {} s for a chat; give one "
                    "that comes to an end",
                    place, template_.name, limits_.seconds));
  }
  const std::string words = child_->LastWords();
  throw UserError(fmt::format(
      "{}{}: python3, which renders chats, has ended ({}{}); {}", place, template_.name,
      WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                          : fmt::format("exit code {}", WEXITSTATUS(status)),
      words.empty() ? "" : ": " + words,
      WIFEXITED(status) && WEXITSTATUS(status) == 127
          ? kInstall
          : "see that python3 -c 'import jinja2' works, and that the template makes no huge text"));
}

}  // namespace plimsoll::data
