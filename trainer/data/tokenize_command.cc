#include "trainer/data/tokenize_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "trainer/data/encode_text.h"
#include "trainer/data/token_file_writer.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReportEvery = int64_t{8} << 20;  // bytes

// Existing files OUT/NAME_*.bin: the shards of a longer earlier run would be read with the new
// ones.
std::vector<fs::path> ExistingShards(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.rfind("train_", 0) == 0 || name.rfind("val_", 0) == 0;
    if (ours && entry.path().extension() == ".bin") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Cuts a stream of tokens into shards; Commit() moves all of them into place.
class ShardWriter {
 public:
  ShardWriter(fs::path folder, std::string name, TokenFileForm form, int64_t shard_tokens)
      : folder_(std::move(folder)),
        name_(std::move(name)),
        form_(form),
        shard_tokens_(shard_tokens) {}

  void Append(std::span<const int32_t> ids) {
    while (!ids.empty()) {
      if (writers_.empty() || writers_.back().tokens() == shard_tokens_) {
        if (!writers_.empty()) writers_.back().Finish();
        const std::string file = fmt::format("{}_{:06}.bin", name_, writers_.size());
        writers_.emplace_back((folder_ / file).string(), form_);
      }
      const int64_t room = shard_tokens_ - writers_.back().tokens();
      const size_t count = std::min(ids.size(), static_cast<size_t>(room));
      writers_.back().Append(ids.subspan(0, count));
      ids = ids.subspan(count);
      tokens_ += static_cast<int64_t>(count);
    }
  }

  void Finish() {
    if (!writers_.empty()) writers_.back().Finish();
  }

  std::vector<std::string> Commit() {
    std::vector<std::string> files;
    for (TokenFileWriter& writer : writers_) {
      writer.Commit();
      files.push_back(writer.path());
    }
    return files;
  }

  int64_t tokens() const { return tokens_; }

 private:
  fs::path folder_;
  std::string name_;
  TokenFileForm form_;
  int64_t shard_tokens_;
  std::vector<TokenFileWriter> writers_;
  int64_t tokens_ = 0;
};

class Progress {
 public:
  Progress(const Say& say, int64_t total) : say_(say), total_(total), next_(kReportEvery) {}

  void Add(int64_t bytes, int64_t tokens) {
    done_ += bytes;
    if (!say_ || done_ < next_) return;
    next_ = done_ + kReportEvery;
    say_(fmt::format("tokenize: {:.1f} of {:.1f} MB, {} tokens\n", static_cast<double>(done_) / 1e6,
                     static_cast<double>(total_) / 1e6, tokens));
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
  const std::vector<MappedFile> files =
      MapTexts(ExpandFiles(options.inputs, options.exclude, "data tokenize"), "data tokenize", say);
  const DocumentSplit split = SplitDocuments(files, options.split);

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
    for (const MappedFile& file : files) {
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
  ShardWriter train(folder, "train", form, options.shard_tokens);
  ShardWriter eval(folder, "val", form, options.shard_tokens);

  const DocumentEnd end = DocumentEndOf(options.end_of_text ? tokenizer->EndOfText() : std::nullopt,
                                        split, options.split.delimiter);
  if (say && options.end_of_text && !end.token && split.train.size() + split.eval.size() > 1) {
    say(fmt::format("tokenize: the tokenizer has no token that ends texts: {}\n",
                    end.delimiter.empty() ? "nothing parts documents"
                                          : "documents are parted by lines " + end.delimiter));
  }
  Progress report(say, result.bytes);
  const auto write = [&](const DocumentList& documents, ShardWriter* writer) {
    EncodeDocuments(documents, *tokenizer, end,
                    [&](std::span<const int32_t> ids, int64_t text_bytes) {
                      writer->Append(ids);
                      report.Add(text_bytes, train.tokens() + eval.tokens());
                    });
    writer->Finish();
  };
  write(split.train, &train);
  write(split.eval, &eval);

  result.train_tokens = train.tokens();
  result.eval_tokens = eval.tokens();
  result.train_files = train.Commit();
  result.eval_files = eval.Commit();
  for (const fs::path& old : existing) {
    const auto is_old = [&](const std::string& file) { return fs::path(file) == old; };
    const bool replaced =
        std::any_of(result.train_files.begin(), result.train_files.end(), is_old) ||
        std::any_of(result.eval_files.begin(), result.eval_files.end(), is_old);
    if (!replaced) fs::remove(old, error);
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
  std::string out = fmt::format("{}: {} tokens, uint{}{}, largest id {}\n", path, tokens, 8 * width,
                                header ? " with llm.c header" : "", max_id);
  if (masked > 0) out += fmt::format("ignored as targets: {} (from {}.mask)\n", masked, path);
  out += fmt::format("first ids:{}\n", ids);
  if (!first_text.empty()) out += fmt::format("first text: {}\n", first_text);
  return out;
}

TokenFileSummary InspectTokenFile(const std::string& path, const TokenFileOptions& options,
                                  const Tokenizer* tokenizer, int64_t first) {
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
