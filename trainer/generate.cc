#include "trainer/generate.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "models/huggingface.h"
#include "trainer/config/load.h"
#include "trainer/from_config.h"
#include "trainer/sampler.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

// The texts being continued, as the program for logits wants them: the last T tokens of each.
class Rows {
 public:
  Rows(int64_t rows, int64_t sequence, std::vector<int32_t> prompt)
      : sequence_(sequence), ids_(rows, std::move(prompt)) {}

  std::vector<int32_t>& row(size_t r) { return ids_[r]; }
  size_t size() const { return ids_.size(); }

  void Window(std::vector<int32_t>* tokens, std::vector<int32_t>* last) const {
    tokens->assign(ids_.size() * sequence_, 0);
    last->clear();
    for (size_t r = 0; r < ids_.size(); ++r) {
      const int64_t length = static_cast<int64_t>(ids_[r].size());
      const int64_t shown = std::min(length, sequence_);
      std::copy(ids_[r].end() - shown, ids_[r].end(), tokens->begin() + r * sequence_);
      last->push_back(static_cast<int32_t>(shown - 1));
    }
  }

 private:
  int64_t sequence_;
  std::vector<std::vector<int32_t>> ids_;
};

// Tokens that a checkpoint without a run's config looks back on, if its model allows as many.
constexpr int64_t kContext = 1024;

// The folder of a run's weights and its config, or of a Hugging Face checkpoint alone.
struct Source {
  config::Loaded loaded;
  std::string weights;
};

Source Open(const GenerateCommand& command) {
  const std::string run_config = command.folder + "/config.yaml";
  std::error_code error;
  if (fs::exists(run_config, error)) {
    Source source{LoadRun(run_config, command.sets), command.folder + "/model"};
    if (!fs::exists(source.weights + "/config.json", error)) {
      throw UserError(command.folder +
                      ": the run has no model/ yet; it is written when training "
                      "ends");
    }
    return source;
  }
  if (!fs::exists(command.folder + "/config.json", error)) {
    throw UserError(command.folder +
                    ": neither a run directory (config.yaml) nor a Hugging Face folder "
                    "(config.json)");
  }
  const int64_t context =
      std::min(kContext, models::SpecFromHuggingFace(command.folder).max_sequence);
  std::vector<std::string> sets = {"model.init_from=" + command.folder, "data.synthetic=true",
                                   "model.sequence=" + std::to_string(context)};
  sets.insert(sets.end(), command.sets.begin(), command.sets.end());
  return {config::LoadText("", command.folder, sets), command.folder};
}

std::unique_ptr<data::Tokenizer> TokenizerOf(const GenerateCommand& command, const Source& source,
                                             const models::Model& model) {
  if (!command.tokenizer.empty()) return TokenizerFor(model, command.tokenizer);
  if (!source.loaded.config.data.tokenizer.empty()) {
    return TokenizerFor(model, source.loaded.config.data.tokenizer);
  }
  std::error_code error;
  if (fs::exists(source.weights + "/tokenizer.json", error)) {
    return TokenizerFor(model, source.weights + "/tokenizer.json");
  }
  throw UserError(command.folder + ": no tokenizer; name one with --tokenizer (byte, or a path)");
}

}  // namespace

GenerateOptions GenerateFrom(const config::SampleConfig& sample) {
  return {sample.prompt, sample.tokens, sample.temperature, sample.top_k,
          static_cast<uint64_t>(sample.seed)};
}

std::vector<std::string> Generate(Session& session, const data::Tokenizer& tokenizer,
                                  const GenerateOptions& options,
                                  const std::function<void(const std::string&)>& stream) {
  const CompileOptions& shape = session.compiled().options;
  const std::optional<int32_t> end = tokenizer.EndOfText();
  std::vector<int32_t> prompt = tokenizer.Encode(options.prompt);
  // Something must come first: an empty prompt starts where a document does.
  if (prompt.empty()) prompt = end ? std::vector<int32_t>{*end} : tokenizer.Encode("\n");

  Rows rows(shape.generate_rows, shape.sequence, prompt);
  std::vector<Sampler> samplers;
  for (size_t r = 0; r < rows.size(); ++r) {
    samplers.emplace_back(options.temperature, options.top_k, options.seed + r);
  }
  std::vector<bool> ended(rows.size(), false);
  data::Utf8Stream utf8;
  if (stream) stream(options.prompt);

  std::vector<int32_t> window, last;
  for (int64_t t = 0; t < options.tokens && !std::ranges::all_of(ended, std::identity()); ++t) {
    rows.Window(&window, &last);
    const std::span<const float> logits = session.Logits(window, last);
    const size_t vocab = logits.size() / rows.size();
    for (size_t r = 0; r < rows.size(); ++r) {
      if (ended[r]) continue;
      const int32_t id = samplers[r].Draw(logits.subspan(r * vocab, vocab), tokenizer.vocab_size());
      ended[r] = end && id == *end;
      if (ended[r]) continue;
      rows.row(r).push_back(id);
      if (stream && r == 0) {
        std::string bytes;
        tokenizer.Decode(id, &bytes);
        stream(utf8.Push(bytes));
      }
    }
  }
  if (stream) stream(utf8.Finish());

  std::vector<std::string> texts;
  for (size_t r = 0; r < rows.size(); ++r) {
    data::Utf8Stream whole;
    std::string text = whole.Push(tokenizer.Decode(rows.row(r)));
    texts.push_back(text + whole.Finish());
  }
  return texts;
}

void RunGenerate(const GenerateCommand& command) {
  const Source source = Open(command);
  const config::RunConfig& config = source.loaded.config;
  const std::unique_ptr<models::Model> model =
      models::MakeModel(models::SpecFromHuggingFace(source.weights));
  const std::unique_ptr<data::Tokenizer> tokenizer = TokenizerOf(command, source, *model);
  GenerateOptions sampling = GenerateFrom(config.sample);
  if (command.prompt) sampling.prompt = *command.prompt;

  CompileOptions options = CompileFrom(config, *model);
  // No longer than what will be written.
  const int64_t length =
      static_cast<int64_t>(tokenizer->Encode(sampling.prompt).size()) + sampling.tokens + 1;
  options.sequence = std::min(options.sequence, length);
  options.train = false;
  options.evaluate = false;
  options.generate_rows = config.sample.count;
  ThreadPool pool(options.threads);
  Session session(Compile(*model, options), pool);
  session.LoadWeights(*model, source.weights);

  const bool one = config.sample.count == 1;
  const std::vector<std::string> texts =
      Generate(session, *tokenizer, sampling,
               one ? [](const std::string& text) {
                 std::fputs(text.c_str(), stdout);
                 std::fflush(stdout);
               } : std::function<void(const std::string&)>());
  if (one) {
    std::puts("");
    return;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    std::printf("--- %zu of %zu\n%s\n", i + 1, texts.size(), texts[i].c_str());
  }
}

}  // namespace plimsoll::trainer
