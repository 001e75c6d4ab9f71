// The work of the commands `plimsoll data …`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/chats/chat_template.h"
#include "data/texts/documents.h"
#include "data/texts/text_file.h"
#include "data/tokenizers/begin_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/wordpiece_training.h"
#include "data/tokens/token_file.h"
#include "data/volumes/synthetic_volume.h"

namespace plimsoll::data {

// Options of `plimsoll data tokenize`.
struct TokenizeOptions {
  std::vector<std::string> inputs;   // files of text or examples (open_texts.h), or shell patterns
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string tokenizer = "byte";    // see LoadTokenizer
  std::string out;                   // output folder; created if missing
  SplitOptions split;                // with an eval_fraction of 0, no held-out files are written
  TextTokens text_tokens = {};       // how texts begin and end
  bool end_of_text = true;           // put the tokenizer's end-of-text token after each text
  bool header = false;               // llm.c's form instead of plain ids
  int64_t shard_tokens = 100'000'000;
  bool overwrite = false;
};

struct TokenizeResult {
  std::vector<std::string> train_files, eval_files;
  int64_t train_tokens = 0, eval_tokens = 0, bytes = 0;
  int64_t ignored_tokens = 0;  // tokens of prompts, which carry no loss, in both parts
  int width = 2;               // bytes per token
};

// Writes OUT/train_000000.bin, … and OUT/val_000000.bin, …, and next to each file that has tokens
// of prompts its mask FILE.mask, and FILE.begin if documents begin with a token (token_file.h). All
// files appear together at the end, or none if anything fails. If text was split into documents and
// the tokenizer has no end-of-text token (bytes), the delimiter lines stay in the text. `say` gets
// progress lines, and may be empty. UserErrors: nothing to read, a tokenizer that cannot be loaded,
// an OUT that cannot be written or already holds such files.
TokenizeResult Tokenize(const TokenizeOptions& options, const Say& say);

// Result of `plimsoll data inspect` for a token file.
struct TokenFileSummary {
  std::string path;
  bool header = false;
  int width = 2;
  int64_t tokens = 0;
  int64_t masked = 0;  // target tokens that carry no loss
  uint32_t max_id = 0;
  std::vector<int32_t> begins;  // ids with which texts other than chats begin
  std::vector<int32_t> first;   // ids of the first tokens
  std::string first_text;       // text of the first tokens, if a tokenizer was given
  std::string ToString() const;
};

// `tokenizer` may be null. Throws a UserError if the file is text, unless options.format says that
// it is tokens.
TokenFileSummary InspectTokenFile(const std::string& path, const TokenFileOptions& options,
                                  const Tokenizer* tokenizer, int64_t first = 32);

// Options of `plimsoll data inspect` for examples (examples.h).
struct InspectExamplesOptions {
  std::vector<std::string> files;  // files or shell patterns
  std::string tokenizer;           // see LoadTokenizer
  ChatOptions chats;
  TextTokens text_tokens = {};  // how texts begin and end
  std::string separator;        // SplitOptions::delimiter
  int64_t shown = 3;            // the number of examples to show, from the first
  bool colored = false;  // marks text that carries loss by terminal colours, otherwise by brackets
};

// Returns the text of each of the first examples, with the tokens that carry loss highlighted, and
// their token counts; then the totals of all examples, and why some cannot be read. Control
// characters are written as \x1b and the like. UserErrors: those of tokenising the files.
std::string InspectExamples(const InspectExamplesOptions& options, const Say& say);

// Options of `plimsoll data wordpiece`, which makes a WordPiece vocabulary from text.
struct WordPieceOptions {
  std::vector<std::string> inputs;   // text files, or shell patterns for them
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string separator;             // lines that separate documents; their words are not counted
  bool cased = false;                // keeps upper case and accents
  WordPieceTraining training;        // its `words` follow from `cased`
  std::string out;                   // output folder; created if missing
  bool overwrite = false;
};

struct WordPieceResult {
  std::string vocabulary;  // OUT/vocab.txt
  int64_t tokens = 0;      // tokens in the vocabulary
  int64_t bytes = 0;       // bytes of text read
  int64_t words = 0;       // distinct words
};

// Writes OUT/vocab.txt and OUT/tokenizer_config.json, which data.tokenizer and transformers'
// BertTokenizer read. The same text gives the same bytes. UserErrors: nothing to read, no words, an
// OUT that cannot be written or already holds a vocabulary, a size that has no room for the
// characters.
WordPieceResult MakeWordPieces(const WordPieceOptions& options, const Say& say);

// Options of `plimsoll data volumes`, which writes synthetic volumes as files.
struct WriteVolumesOptions {
  std::string folder;  // created if missing
  int64_t train = 20, test = 5;
  SyntheticVolumeOptions volume = {.size = {64, 64, 64}, .channels = 1, .classes = 3};
  uint64_t seed = 1;
};

// Writes FOLDER/imagesTr, labelsTr, imagesTs, labelsTs and dataset.json, in the layout of the
// Medical Segmentation Decathlon, which data.folder and MONAI read. Images are int16, with 1000 for
// the intensity 1; voxels are 1 mm wide. The same options give the same voxels. UserErrors: an
// impossible size or number of volumes, a folder that cannot be written or already holds volumes.
void WriteVolumes(const WriteVolumesOptions& options);

// Options of `plimsoll data images`, which writes the images of a data set as JPEG or PNG files.
struct WriteImagesOptions {
  std::string folder;  // created if missing
  // The folder with the images' files, which ReadImageFiles reads.
  std::string from = "/usr/share/datasets/fashion-mnist";
  std::string format = "png";   // or "jpeg"
  int quality = 90;             // JPEG quality, 1 to 100
  int64_t train = 0, test = 0;  // how many images of each class to write, from the first; 0: all
  // Names of the classes' folders, in the order of the classes' numbers. Empty: Fashion-MNIST's
  // names if `from` is its default, otherwise the numbers.
  std::vector<std::string> classes = {};
};

// The numbers of images written.
struct WrittenImages {
  int64_t train = 0, test = 0;
};

// Writes FOLDER/train/CLASS/NUMBER.png and FOLDER/test/CLASS/NUMBER.png (or .jpg), which
// data.folder and torchvision's ImageFolder read. NUMBER is the image's index in its file. The same
// options give the same bytes. UserErrors: no such images, a number of class names other than that
// of classes, a folder that cannot be written or already holds images.
WrittenImages WriteImages(const WriteImagesOptions& options);

}  // namespace plimsoll::data
