#include "trainer/language/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ranges>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "data/tokenizers/unicode.h"
#include "trainer/language/generate_images.h"
#include "trainer/language/not_finite.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/trained_model.h"

namespace plimsoll::trainer {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A text being continued. A program runs all rows together, so a row that has ended is padded until
// the other rows end.
struct Row {
  Row(const GenerateOptions& options, uint64_t number, size_t prompt)
      : sampler(options.temperature, options.top_k, options.top_p, options.seed + number),
        stop(options.stop),
        length(prompt) {}

  // Appends a token. Returns the part of the text that no stop string can remove.
  std::string Add(const data::Tokenizer& tokenizer, int32_t id) {
    std::string bytes;
    tokenizer.Decode(id, &bytes);
    std::string more = stop.Push(utf8.Push(bytes));
    ended = stop.stopped();
    added += more;
    return more;
  }

  Sampler sampler;
  data::Utf8Stream utf8;
  StopText stop;
  std::string added;  // text after the prompt
  bool ended = false;
  size_t length = 0;  // number of tokens in the text
};

std::string Text(const data::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  data::Utf8Stream whole;
  std::string text = whole.Push(tokenizer.Decode(ids));
  return text + whole.Finish();
}

std::vector<int32_t> EncodePrompt(const data::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids = tokenizer.facts().begins;
  tokenizer.Encode(prompt, &ids);
  // The model needs a first token. An empty prompt begins like a document.
  if (ids.empty()) {
    const std::optional<int32_t> end = tokenizer.EndOfText();
    ids = end ? std::vector<int32_t>{*end} : tokenizer.Encode("\n");
  }
  return ids;
}

void PrintStatistics(const Generated& generated, const CompiledStep& compiled) {
  const InferenceMemory memory = MemoryOf(compiled);
  const int64_t others = std::max<int64_t>(0, generated.tokens - compiled.options.generate_rows);
  PrintNote(fmt::format(
      "prompt of {} and first token {:.3f} s, then {} in {:.3f} s, {:.1f} "
      "tokens/s\narena {}: weights {}, cache {}, rest {}\n",
      Counted(generated.prompt_tokens, "token"), generated.prompt_seconds, Counted(others, "token"),
      generated.seconds, others == 0 ? 0 : static_cast<double>(others) / generated.seconds,
      FormatBytes(memory.arena), FormatBytes(memory.weights), FormatBytes(memory.cache),
      FormatBytes(memory.rest)));
}

// The type for computing; prints a note if a default is not fp32.
std::string DtypeOf(const GenerateCommand& command, const TrainedModel& trained) {
  if (!command.dtype.empty()) return command.dtype;
  const std::string dtype = DefaultDtype(trained, DeviceFrom(trained.config()));
  if (dtype != "fp32") {
    const bool trains = trained.is_run || trained.snapshot;
    PrintNote(fmt::format("computes in {}, as {} says; --dtype chooses another type\n", dtype,
                          trains ? "amp.dtype of the run" : "the folder's config.json"));
  }
  return dtype;
}

// Refuses options for texts if the model generates images.
void RefuseForTexts(const GenerateCommand& command, const models::Model& model) {
  if (command.for_texts.empty()) return;
  throw UserError(
      fmt::format("{}: is for models that continue texts, and models of family {} make images: {}",
                  command.for_texts.front(), model.family(), WayToImages(command.folder)));
}

// Refuses options for conversations without --chat, and options for a single text with --chat.
void CheckConversation(const GenerateCommand& command) {
  const ConversationOptions& chat = command.chat;
  const std::string way = fmt::format("plimsoll generate {} --chat", command.folder);
  if (!chat.asked) {
    for (const auto& [option, given] : {std::pair("--chat-template", !chat.chat_template.empty()),
                                        std::pair("--system", chat.system.has_value())}) {
      if (given) throw UserError(fmt::format("{}: is for conversations: {}", option, way));
    }
    return;
  }
  for (const char* option : {"--prompt", "--count"}) {
    if (std::ranges::find(command.for_texts, option) == command.for_texts.end()) continue;
    throw UserError(fmt::format(
        "{}: --chat answers each line of standard input once; leave one of the two out", option));
  }
}

// Refuses options for images if the model continues texts.
void RefuseForImages(const GenerateCommand& command, const models::Model& model) {
  const ImageOptions& images = command.images;
  for (const auto& [option, given] :
       {std::pair("--images", images.count.has_value()), std::pair("--to", !images.to.empty()),
        std::pair("--overwrite", images.overwrite),
        std::pair("--batch", images.batch.has_value())}) {
    if (!given) continue;
    const char* const instead =
        model.text_sizes() ? "continue texts: plimsoll generate" : "do not: plimsoll predict";
    throw UserError(
        fmt::format("{}: is for models that make images of noise, and models of family {} {} {}",
                    option, model.family(), instead, command.folder));
  }
}

}  // namespace

GenerateOptions GenerateFrom(const config::SampleConfig& sample) {
  return {.prompt = sample.prompt,
          .tokens = sample.tokens,
          .temperature = sample.temperature,
          .top_k = sample.top_k,
          .top_p = sample.top_p,
          .stop = sample.stop,
          .seed = static_cast<uint64_t>(sample.seed)};
}

Generated Generate(Session& session, const data::Tokenizer& tokenizer,
                   const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream) {
  NextToken next(session);
  if (stream) stream(options.prompt);
  return Continue(next, tokenizer, EncodePrompt(tokenizer, options.prompt), options, stream);
}

Generated Continue(NextToken& next, const data::Tokenizer& tokenizer,
                   const std::vector<int32_t>& prompt, const GenerateOptions& options,
                   const std::function<void(const std::string&)>& stream) {
  std::vector<int32_t> ends = options.ends;
  if (const auto end = tokenizer.EndOfText()) ends.push_back(*end);
  std::vector<std::vector<int32_t>> ids(next.rows(), prompt);
  std::vector<Row> rows;
  for (size_t r = 0; r < ids.size(); ++r) rows.emplace_back(options, r, prompt.size());
  Generated generated;
  generated.prompt_tokens = static_cast<int64_t>(prompt.size());

  Clock::time_point start = Clock::now();
  for (int64_t t = 0; t < options.tokens; ++t) {
    if (std::ranges::all_of(rows, [](const Row& row) { return row.ended; })) break;
    const std::span<const float> logits = next.Logits(ids);
    if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
      throw NotFinite("the next token's logits hold NaN or infinity");
    }
    const size_t vocab = logits.size() / rows.size();
    for (size_t r = 0; r < rows.size(); ++r) {
      Row& row = rows[r];
      int32_t id = ids[r].back();
      if (!row.ended) {
        id = row.sampler.Draw(logits.subspan(r * vocab, vocab), tokenizer.vocab_size());
        row.ended = std::ranges::find(ends, id) != ends.end();
        ++generated.tokens;
      }
      ids[r].push_back(id);
      if (row.ended) continue;
      row.length = ids[r].size();
      const std::string more = row.Add(tokenizer, id);
      if (stream && r == 0) stream(more);
    }
    if (t == 0) {
      generated.prompt_seconds = SecondsSince(start);
      start = Clock::now();
    }
  }
  generated.seconds = SecondsSince(start);
  generated.ended = std::ranges::count_if(rows, &Row::ended);
  if (stream) {
    Row& row = rows.front();
    stream(row.stop.Push(row.utf8.Finish()));
    stream(row.stop.Finish());
  }

  const std::vector<int32_t>& begins = tokenizer.facts().begins;
  const auto shown = [&](const std::vector<int32_t>& all) {
    const bool begun = std::ranges::equal(begins, all | std::views::take(begins.size()));
    return Text(tokenizer, {all.begin() + (begun ? std::ssize(begins) : 0), all.end()});
  };
  for (size_t r = 0; r < rows.size(); ++r) {
    ids[r].resize(rows[r].length);
    generated.texts.push_back(rows[r].stop.stopped() ? shown(prompt) + rows[r].added
                                                     : shown(ids[r]));
  }
  return generated;
}

void RunGenerate(const GenerateCommand& command) {
  if (std::ranges::find(command.stop, "") != command.stop.end()) {
    throw UserError("--stop: an empty text begins everywhere; give one that ends the continuation");
  }
  CheckConversation(command);
  const TrainedModel trained = OpenTrainedModel(command.folder, command.sets, command.choice);
  const config::RunConfig& config = trained.config();
  if (models::MakesImages(*trained.model)) {
    RefuseForTexts(command, *trained.model);
    return GenerateImages(command.images, command.dtype.empty() ? "fp32" : command.dtype, trained);
  }
  RefuseForImages(command, *trained.model);
  models::TextSizesOf(*trained.model);  // refuses models that do not continue texts
  const std::string name = trained.Tokenizer(command.tokenizer);
  if (name.empty()) {
    throw UserError(command.folder + ": no tokenizer; name one with --tokenizer (byte, or a path)");
  }
  const std::unique_ptr<data::Tokenizer> tokenizer = TokenizerFor(*trained.model, name);
  const std::string begins = Apply(TextTokensFrom(config.data), *tokenizer);
  if (config.data.begin == config::BeginToken::kNone && !begins.empty() && !command.chat.asked) {
    PrintNote(begins + "\n");
  }
  GenerateOptions sampling = GenerateFrom(config.sample);
  if (command.prompt) sampling.prompt = *command.prompt;
  if (!command.stop.empty()) sampling.stop = command.stop;
  sampling.ends = trained.Ends();
  const std::string dtype = DtypeOf(command, trained);
  if (command.chat.asked) {
    return GenerateChat(command.chat, dtype, sampling, trained, *tokenizer);
  }

  CompileOptions options = InferenceOptions(trained, dtype);
  options.generate_rows = config.sample.count;
  // The context need not exceed the complete text. The last drawn token is never an input.
  const int64_t length =
      static_cast<int64_t>(EncodePrompt(*tokenizer, sampling.prompt).size()) + sampling.tokens - 1;
  options.generate_context = std::min(config.model.sequence(), length);
  ThreadPool pool(options.threads);
  const std::unique_ptr<runtime::Device> device = MakeDevice(trained.config(), pool);
  Session session(Compile(*trained.model, options), *device);
  LoadTrained(trained, session);

  const bool one = config.sample.count == 1;
  Generated generated;
  try {
    generated = Generate(session, *tokenizer, sampling,
                         one ? [](const std::string& text) { PrintAnswer(text); }
                             : std::function<void(const std::string&)>());
  } catch (const NotFinite& error) {
    if (one) PrintAnswer("\n");
    throw ExplainNotFinite(trained, session, dtype, error.what());
  }
  if (one) {
    PrintAnswer("\n");
  } else {
    for (size_t i = 0; i < generated.texts.size(); ++i) {
      PrintAnswer(
          fmt::format("--- {} of {}\n{}\n", i + 1, generated.texts.size(), generated.texts[i]));
    }
  }
  PrintStatistics(generated, session.compiled());
}

}  // namespace plimsoll::trainer
