// What the commands `plimsoll data …` do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/chats/chat_template.h"
#include "data/texts/documents.h"
#include "data/texts/text_file.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/wordpiece_training.h"
#include "data/tokens/token_file.h"
#include "data/volumes/synthetic_volume.h"

namespace plimsoll::data {

// `plimsoll data tokenize`.
struct TokenizeOptions {
  std::vector<std::string> inputs;   // of text or of examples (open_texts.h), or shell patterns
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string tokenizer = "byte";    // see LoadTokenizer
  std::string out;                   // folder, made if need be
  SplitOptions split;                // an eval_fraction of 0 writes no held-out files
  bool end_of_text = true;           // put the tokenizer's end-of-text token after each text
  bool header = false;               // llm.c's form instead of plain ids
  int64_t shard_tokens = 100'000'000;
  bool overwrite = false;
};

struct TokenizeResult {
  std::vector<std::string> train_files, eval_files;
  int64_t train_tokens = 0, eval_tokens = 0, bytes = 0;
  int64_t ignored_tokens = 0;  // of both: those of prompts, which carry no loss
  int width = 2;               // bytes a token
};

// Writes OUT/train_000000.bin, … and OUT/val_000000.bin, …; all appear together at the end, and
// none if anything fails; next to each file with tokens of prompts FILE.mask (token_file.h). If
// text was cut into documents and the tokenizer has no end-of-text token (bytes), the delimiter
// lines stay in the text. Progress lines go to `say`, which may be empty. UserErrors: nothing to
// read, a tokenizer that cannot be loaded, an OUT that cannot be written or already holds such
// files.
TokenizeResult Tokenize(const TokenizeOptions& options, const Say& say);

// `plimsoll data inspect`.
struct TokenFileSummary {
  std::string path;
  bool header = false;
  int width = 2;
  int64_t tokens = 0;
  int64_t masked = 0;  // tokens that carry no loss as targets
  uint32_t max_id = 0;
  std::vector<int32_t> first;  // ids
  std::string first_text;      // decoded, if a tokenizer was given
  std::string ToString() const;
};

// `tokenizer` may be null. UserError for text, unless options.format says that it is tokens.
TokenFileSummary InspectTokenFile(const std::string& path, const TokenFileOptions& options,
                                  const Tokenizer* tokenizer, int64_t first = 32);

// `plimsoll data inspect` of examples (examples.h).
struct InspectExamplesOptions {
  std::vector<std::string> files;  // or shell patterns
  std::string tokenizer;           // see LoadTokenizer
  ChatOptions chats;
  std::string separator;  // SplitOptions::delimiter
  int64_t shown = 3;      // the number of examples to show, from the first on
  bool colored = false;   // what carries loss, by escape codes of terminals; otherwise in brackets
};

// Of each of the first examples its tokens as text, with those that carry loss highlighted, and
// their numbers; of all examples the totals. Control characters are written as \x1b and the like.
// UserErrors: what tokenising the files would refuse.
std::string InspectExamples(const InspectExamplesOptions& options, const Say& say);

// `plimsoll data wordpiece`: makes a WordPiece vocabulary of text.
struct WordPieceOptions {
  std::vector<std::string> inputs;   // text files, or shell patterns for them
  std::vector<std::string> exclude;  // names to leave out, for example "*.dat"
  std::string separator;             // lines that part documents, which are not counted
  bool cased = false;                // keeps upper case and accents
  WordPieceTraining training;        // its `words` follow from `cased`
  std::string out;                   // folder, made if need be
  bool overwrite = false;
};

struct WordPieceResult {
  std::string vocabulary;  // OUT/vocab.txt
  int64_t tokens = 0;      // in it
  int64_t bytes = 0;       // of text
  int64_t words = 0;       // different ones
};

// Writes OUT/vocab.txt and OUT/tokenizer_config.json, which data.tokenizer and transformers'
// BertTokenizer read. The same text gives the same bytes. UserErrors: nothing to read, no words, an
// OUT that cannot be written or holds a vocabulary, a size that has no room for the characters.
WordPieceResult MakeWordPieces(const WordPieceOptions& options, const Say& say);

// `plimsoll data volumes`: writes made-up volumes as files.
struct WriteVolumesOptions {
  std::string folder;  // made if need be
  int64_t train = 20, test = 5;
  SyntheticVolumeOptions volume = {.size = {64, 64, 64}, .channels = 1, .classes = 3};
  uint64_t seed = 1;
};

// Writes FOLDER/imagesTr, labelsTr, imagesTs, labelsTs and dataset.json, in the layout of the
// Medical Segmentation Decathlon, which data.folder and MONAI read. Images are int16, with 1000 for
// the intensity 1; voxels are 1 mm wide. The same options give the same voxels. UserErrors: a size
// or number that cannot be, a folder that cannot be written or already holds volumes.
void WriteVolumes(const WriteVolumesOptions& options);

// `plimsoll data images`: writes the images of a data set as JPEG or PNG files.
struct WriteImagesOptions {
  std::string folder;  // made if need be
  // Where they are: files that ReadImageFiles reads.
  std::string from = "/usr/share/datasets/fashion-mnist";
  std::string format = "png";   // or "jpeg"
  int quality = 90;             // of JPEG, 1 to 100
  int64_t train = 0, test = 0;  // the first N of each class; 0: all
  // Of the classes in the order of their numbers: names of folders. Empty: Fashion-MNIST's, or for
  // other images than `from` says by default their numbers.
  std::vector<std::string> classes = {};
};

// How many were written.
struct WrittenImages {
  int64_t train = 0, test = 0;
};

// Writes FOLDER/train/CLASS/NUMBER.png and FOLDER/test/CLASS/NUMBER.png, or .jpg, which data.folder
// and torchvision's ImageFolder read; NUMBER is the image's in its file. The same options give the
// same bytes. UserErrors: no such images, another number of classes, a folder that cannot be
// written or already holds images.
WrittenImages WriteImages(const WriteImagesOptions& options);

}  // namespace plimsoll::data
