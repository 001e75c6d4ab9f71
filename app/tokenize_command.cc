// The commands `plimsoll data tokenize`, and `plimsoll data inspect` for token files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "app/data_commands.h"
#include "base/amounts.h"
#include "base/error.h"
#include "base/output_file.h"
#include "data/texts/open_texts.h"
#include "data/tokenizers/unicode.h"
#include "data/tokens/token_file.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReportEvery = int64_t{8} << 20;  // bytes of text between progress lines

// Existing files OUT/NAME_*.bin and those next to them. Shards left over from a longer earlier run
// would be read together with the new ones.
std::vector<fs::path> ExistingShards(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    for (const std::string_view next : {kMaskSuffix, kBeginSuffix}) {
      if (name.ends_with(next)) name.resize(name.size() - next.size());
    }
    const bool ours = name.rfind("train_", 0) == 0 || name.rfind("val_", 0) == 0;
    if (ours && name.ends_with(".bin")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Writes a token file, its mask if any of its tokens carries no loss, and the tokens with which
// documents begin, if any.
class Shard {
 public:
  Shard(const std::string& path, const TokenFileForm& form, bool masked,
        const std::vector<int32_t>& begins)
      : tokens_(path, form), begins_(begins) {
    if (masked) mask_ = std::make_unique<OutputFile>(path + std::string(kMaskSuffix));
  }

  void Append(std::span<const int32_t> ids, bool carries_loss) {
    tokens_.Append(ids);
    if (mask_ == nullptr) return;
    mask_->Write(std::string(ids.size(), carries_loss ? '\1' : '\0'));
    ignores_ |= !carries_loss && !ids.empty();
  }
  void Finish() { tokens_.Finish(); }
  // Moves the files next to the tokens into place before these: without a mask, all tokens would
  // carry loss.
  void Commit() {
    const std::string mask = path() + std::string(kMaskSuffix);
    std::error_code error;
    if (ignores_) {
      mask_->Commit();
    } else {
      fs::remove(mask, error);
    }
    const std::string begin = path() + std::string(kBeginSuffix);
    if (begins_.empty()) {
      fs::remove(begin, error);
    } else {
      WriteWhole(begin, BeginsText(begins_));
    }
    tokens_.Commit();
  }

  const std::string& path() const { return tokens_.path(); }
  int64_t tokens() const { return tokens_.tokens(); }
  // The files that Commit() puts in place.
  std::vector<fs::path> files() const {
    std::vector<fs::path> all = {path()};
    if (ignores_) all.emplace_back(path() + std::string(kMaskSuffix));
    if (!begins_.empty()) all.emplace_back(path() + std::string(kBeginSuffix));
    return all;
  }

 private:
  TokenFileWriter tokens_;
  std::vector<int32_t> begins_;
  std::unique_ptr<OutputFile> mask_;
  bool ignores_ = false;
};

// Splits a stream of tokens into shards; Commit() moves all shards into place.
class ShardWriter {
 public:
  ShardWriter(fs::path folder, std::string name, TokenFileForm form, const TokenizeOptions& options,
              bool masked, std::vector<int32_t> begins)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        form_(form),
        shard_tokens_(options.shard_tokens),
        masked_(masked),
        begins_(std::move(begins)) {}

  void Append(std::span<const int32_t> ids, bool carries_loss) {
    if (!carries_loss) ignored_ += std::ssize(ids);
    while (!ids.empty()) {
      if (shards_.empty() || shards_.back().tokens() == shard_tokens_) {
        if (!shards_.empty()) shards_.back().Finish();
        const std::string file = fmt::format("{}_{:06}.bin", name_, shards_.size());
        shards_.emplace_back((folder_ / file).string(), form_, masked_, begins_);
      }
      const int64_t room = shard_tokens_ - shards_.back().tokens();
      const size_t count = std::min(ids.size(), static_cast<size_t>(room));
      shards_.back().Append(ids.subspan(0, count), carries_loss);
      ids = ids.subspan(count);
      tokens_ += static_cast<int64_t>(count);
    }
  }

  void Finish() {
    if (!shards_.empty()) shards_.back().Finish();
  }

  // Moves the token files into place and returns them; `written` also gets the files next to them.
  std::vector<std::string> Commit(std::set<fs::path>& written) {
    std::vector<std::string> files;
    for (Shard& shard : shards_) {
      shard.Commit();
      files.push_back(shard.path());
      for (const fs::path& file : shard.files()) written.insert(file);
    }
    return files;
  }

  int64_t tokens() const { return tokens_; }
  int64_t ignored() const { return ignored_; }

 private:
  fs::path folder_;
  std::string name_;
  TokenFileForm form_;
  int64_t shard_tokens_;
  bool masked_;
  std::vector<int32_t> begins_;
  std::vector<Shard> shards_;
  int64_t tokens_ = 0, ignored_ = 0;
};

class Progress {
 public:
  Progress(const Say& say, int64_t total) : say_(say), total_(total), next_(kReportEvery) {}

  void Add(int64_t bytes, int64_t tokens) {
    done_ += bytes;
    if (!say_ || done_ < next_) return;
    next_ = done_ + kReportEvery;
    say_(fmt::format("tokenize: {:.1f} of {:.1f} MB, {}\n", static_cast<double>(done_) / 1e6,
                     static_cast<double>(total_) / 1e6, Counted(tokens, "token")));
  }

 private:
  const Say& say_;
  int64_t total_, done_ = 0, next_;
};

}  // namespace

TokenizeResult Tokenize(const TokenizeOptions& options, const Say& say) {
  if (options.shard_tokens < 2) {
    throw UserError(
        fmt::format("--shard-tokens {}: a shard needs at least 2 tokens", options.shard_tokens));
  }
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(options.tokenizer);
  const std::string begins = Apply(options.text_tokens, *tokenizer);
  const Texts texts = OpenTexts(options.inputs, options.exclude, "data tokenize", say);
  if (texts.examples && !options.end_of_text) {
    throw UserError(
        "--no-end-of-text: is for text; examples (*.jsonl, *.json) end by what training learns to "
        "end them "
        "with; leave it out");
  }
  const DocumentSplit split = SplitTexts(texts, options.split, *tokenizer);

  const fs::path folder = options.out.empty() ? fs::path(".") : fs::path(options.out);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: the folder cannot be made: {}; choose another --out",
                                folder.string(), error.message()));
  }
  const std::vector<fs::path> existing = ExistingShards(folder);
  if (!existing.empty() && !options.overwrite) {
    throw UserError(
        fmt::format("{}: is there already; choose another --out, or give --overwrite to replace "
                    "all train_*.bin "
                    "and val_*.bin in it",
                    existing.front().string()));
  }

  for (const fs::path& shard : existing) {
    for (const MappedFile& file : texts.files) {
      if (!fs::equivalent(shard, file.path(), error)) continue;
      throw UserError(fmt::format("--out: {} is one of the files that are read; name another one",
                                  shard.string()));
    }
  }

  TokenizeResult result;
  result.bytes = split.bytes;
  result.width = tokenizer->vocab_size() > int64_t{1} << 16 ? 4 : 2;
  TokenFileForm form;
  form.width = result.width;
  form.header = options.header;
  ShardWriter train(folder, "train", form, options, texts.examples, tokenizer->facts().begins);
  ShardWriter eval(folder, "val", form, options, texts.examples, tokenizer->facts().begins);

  if (const std::string note = NoteOfEnds(texts, *tokenizer, options.split.delimiter);
      say && !note.empty()) {
    say(fmt::format("tokenize: {}\n", note));
  }
  if (say && !begins.empty()) say(fmt::format("tokenize: {}\n", begins));
  const bool several = split.train.size() + split.eval.size() > 1;
  if (say && !texts.examples && options.end_of_text && !tokenizer->EndOfText() && several) {
    say(fmt::format("tokenize: the tokenizer has no token that ends texts: {}\n",
                    split.delimited ? "documents are parted by lines " + options.split.delimiter
                                    : std::string("nothing parts documents")));
  }
  Progress report(say, result.bytes);
  const auto warn = [&](const std::string& text) {
    if (say && !text.empty()) say(fmt::format("tokenize: {}\n", text));
  };
  if (split.unreadable.count() > 0) {
    warn(split.unreadable.Summary(split.examples) + ":" + split.unreadable.List());
  }
  const auto write = [&](const DocumentList& documents, ShardWriter* writer) {
    const EncodingNotes notes =
        EncodeTexts(texts, split, documents, *tokenizer,
                    {.delimiter = options.split.delimiter,
                     .end_of_text = options.end_of_text,
                     .unreadable = options.split.unreadable},
                    [&](std::span<const int32_t> ids, int64_t text_bytes, bool carries_loss) {
                      writer->Append(ids, carries_loss);
                      report.Add(text_bytes, train.tokens() + eval.tokens());
                    });
    writer->Finish();
    warn(notes.unreadable.Summary(documents.size()));
    warn(notes.ends);
  };
  write(split.train, &train);
  write(split.eval, &eval);

  result.train_tokens = train.tokens();
  result.eval_tokens = eval.tokens();
  result.ignored_tokens = train.ignored() + eval.ignored();
  std::set<fs::path> written;
  result.train_files = train.Commit(written);
  result.eval_files = eval.Commit(written);
  for (const fs::path& old : existing) {
    if (!written.contains(old)) fs::remove(old, error);
  }
  if (say && result.ignored_tokens > 0) {
    say(
        fmt::format("tokenize: {}, of prompts or of other turns, {} no loss, as {} next "
                    "to a token file says\n",
                    Counted(result.ignored_tokens, "token"),
                    result.ignored_tokens == 1 ? "carries" : "carry", kMaskSuffix));
  }
  if (say) {
    say(fmt::format(
        "tokenize: {} bytes, {} + {} held-out tokens of {} bytes, {:.2f} bytes a token, in {}\n",
        result.bytes, result.train_tokens, result.eval_tokens, result.width,
        static_cast<double>(result.bytes) /
            static_cast<double>(std::max<int64_t>(1, result.train_tokens + result.eval_tokens)),
        folder.string()));
  }
  return result;
}

std::string TokenFileSummary::ToString() const {
  std::string ids;
  for (const int32_t id : first) ids += fmt::format(" {}", id);
  std::string out = fmt::format("{}: {}, uint{}{}, largest id {}\n", path, Counted(tokens, "token"),
                                8 * width, header ? " with llm.c header" : "", max_id);
  if (masked > 0) out += fmt::format("ignored as targets: {} (from {}.mask)\n", masked, path);
  out += fmt::format("first ids:{}\n", ids);
  if (!begins.empty()) out += fmt::format("texts begin with ids {}\n", fmt::join(begins, " "));
  if (!first_text.empty()) out += fmt::format("first text: {}\n", first_text);
  return out;
}

namespace {

bool HoldsText(const std::string& path) {
  try {
    return !StartOfText(path).empty();
  } catch (const UserError&) {  // opening the file as tokens reports the problem
    return false;
  }
}

}  // namespace

TokenFileSummary InspectTokenFile(const std::string& path, const TokenFileOptions& options,
                                  const Tokenizer* tokenizer, int64_t first) {
  // A file of text could also be read as tokens, two letters at a time, but nobody means that.
  if (options.format == TokenFormat::kAuto && !path.ends_with(".bin") && HoldsText(path)) {
    throw UserError(fmt::format(
        "{0}: holds text, and token files or examples (*.jsonl, *.json) are inspected; make token "
        "files of it (plimsoll data tokenize {0} --out FOLDER) and name one, or, if its bytes are "
        "tokens, give --format",
        path));
  }
  TokenFileOptions with_vocab = options;
  if (with_vocab.vocab == 0 && tokenizer != nullptr) with_vocab.vocab = tokenizer->vocab_size();
  const auto file = OpenTokenFile(path, with_vocab);
  TokenFileSummary summary;
  summary.path = path;
  summary.header = file->has_header();
  summary.width = file->width();
  summary.tokens = file->size();
  summary.masked = file->size() - file->CountTargets(0, file->size());
  summary.max_id = file->MaxId();
  summary.begins = ReadBegins(path);
  summary.first.resize(static_cast<size_t>(std::clamp<int64_t>(first, 0, file->size())));
  file->Read(0, static_cast<int64_t>(summary.first.size()), summary.first.data());
  if (tokenizer != nullptr) {
    Utf8Stream stream;
    summary.first_text = stream.Push(tokenizer->Decode(summary.first));
    summary.first_text += stream.Finish();
  }
  return summary;
}

}  // namespace plimsoll::data
