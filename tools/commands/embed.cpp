// `cria embed` and `cria rerank`: vectors of texts, and documents in the order of their scores.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/vectors.h"
#include "model/file/json.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

constexpr std::size_t kTogether = 64;  // texts that are evaluated at once, at most

struct EmbedOptions {
  ModelOptions model;
  TextInput input;
  Words texts;  ///< the values of -p
  std::string pooling, query;
  bool json = false;
  std::uint32_t top = 0;  ///< documents to print; 0: all
};

/// A line of the input that is not blank, or a text of the command line.
struct TextLine {
  std::size_t number;
  std::string text;
  std::vector<TokenId> tokens = {};
};

std::vector<TextLine> read_lines(const EmbedOptions& options) {
  std::vector<TextLine> lines;
  note_unread_stdin("--file", options.input.files);
  std::string all = options.texts.empty() ? options.input.read(true) : after_piped_stdin("");
  if (!options.texts.empty() && all.ends_with("\n\n")) all.resize(all.size() - 2);  // not a line
  std::size_t number = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string text = all.substr(at, end - at);
    if (text.ends_with('\r')) text.pop_back();
    ++number;
    if (text.find_first_not_of(" \t") != std::string::npos)
      lines.push_back({number, std::move(text)});
    at = end + 1;
  }
  if (const std::size_t empty = number - lines.size(); empty != 0)
    print_note(counted(empty, "empty line") + (empty == 1 ? " is" : " are") + " left out");
  for (const std::string& text : options.texts) lines.push_back({++number, text});
  if (lines.empty()) print_note("the input has no text");
  return lines;
}

/// -p and -f.
Flags input_flags(EmbedOptions& options, const std::string& what) {
  Flags flags = options.input.flags(what + "s, one per line");
  flags.front() = {"-p,--prompt", "TEXT", "a " + what + "; may be repeated",
                   into::each(options.texts)};
  return flags;
}

/// An engine whose context is as long as the longest text. Throws Error for one that is longer than
/// -c or the training context.
std::unique_ptr<Engine> open_for(const Model& model, const ModelOptions& options,
                                 const std::vector<TextLine>& lines) {
  EngineOptions engine = engine_options(options);
  const std::size_t most = engine.n_ctx == 0 ? model.context_length() : engine.n_ctx;
  std::size_t longest = 1;
  for (const TextLine& line : lines) {
    longest = std::max(longest, line.tokens.size());
    if (line.tokens.size() > most)
      throw Error("",
                  "the text is too long: expected at most " + counted(most, "token") + ", got " +
                      std::to_string(line.tokens.size()) +
                      "; a shorter text or, within the training context, -c helps",
                  "line " + std::to_string(line.number));
    if (line.tokens.empty())
      throw Error("", "the text has no tokens", "line " + std::to_string(line.number));
  }
  if (engine.rope_ctx == 0) engine.rope_ctx = static_cast<std::uint32_t>(most);
  engine.n_ctx = static_cast<std::uint32_t>(longest);
  engine.sequences =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(lines.size(), 1, kTogether));
  return open_engine(model, options, engine);
}

/// f(line, vector) for every line, in order.
template <class F>
void for_each_vector(Engine& engine, const std::vector<TextLine>& lines, Pooling pooling, F&& f) {
  for (std::size_t at = 0; at < lines.size(); at += kTogether) {
    const std::size_t end = std::min(lines.size(), at + kTogether);
    std::vector<std::vector<TokenId>> prompts;
    for (std::size_t i = at; i < end; ++i) prompts.push_back(lines[i].tokens);
    const auto vectors = embed(engine, prompts, pooling);
    for (std::size_t i = at; i < end; ++i) f(lines[i], vectors[i - at]);
  }
}

std::string numbers_text(std::span<const float> values) {
  std::string text;
  for (const float value : values) text += (text.empty() ? "" : " ") + number_text(value);
  return text + "\n";
}

int run_embed(EmbedOptions& options) {
  const auto model = load_model(options.model);
  const Pooling pooling =
      options.pooling.empty() ? default_pooling(*model) : parse_pooling(options.pooling);
  if (pooling == Pooling::Rank)
    throw UsageError("the model scores pairs of texts; use cria rerank, or choose --pooling");
  std::vector<TextLine> lines = read_lines(options);
  for (TextLine& line : lines) line.tokens = model->tokenizer().encode(line.text, true, false);
  const auto engine = open_for(*model, options.model, lines);
  const std::size_t width = vector_size(*model, pooling);
  for_each_vector(*engine, lines, pooling, [&](const TextLine& line, std::span<const float> all) {
    std::vector<std::span<const float>> rows;
    for (std::size_t i = 0; i < all.size(); i += width) rows.push_back(all.subspan(i, width));
    if (options.json) {
      Json json = {{"line", line.number}, {"tokens", line.tokens.size()}};
      if (pooling == Pooling::None)
        json["embeddings"] = rows;
      else
        json["embedding"] = rows.front();
      write_stdout(json_line(json));
    } else {
      for (const std::span<const float> row : rows) write_stdout(numbers_text(row));
    }
    flush_stdout();
  });
  return 0;
}

int run_rerank(EmbedOptions& options) {
  const auto model = load_model(options.model);
  check_output(*model, Pooling::Rank);
  std::vector<TextLine> lines = read_lines(options);
  for (TextLine& line : lines) line.tokens = pair_tokens(*model, options.query, line.text);
  const auto engine = open_for(*model, options.model, lines);
  std::vector<float> scores;
  for_each_vector(*engine, lines, Pooling::Rank,
                  [&](const TextLine&, std::span<const float> outputs) {
                    scores.push_back(relevance(*model, outputs));
                  });
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  if (options.top != 0) order.resize(std::min<std::size_t>(order.size(), options.top));
  Table table({">score", ">line", "document"});
  for (const std::size_t i : order) {
    if (options.json)
      write_stdout(json_line({{"line", lines[i].number},
                              {"relevance_score", scores[i]},
                              {"document", lines[i].text}}));
    else
      table.add({number_text(scores[i]), std::to_string(lines[i].number),
                 for_stream(stdout, lines[i].text)});
  }
  if (!options.json) write_stdout(table.text(stdout));
  return 0;
}

}  // namespace

void add_embed(Program& program) {
  Command& command = program.add("embed", "Print the vectors of texts, one text per line");
  auto options = std::make_shared<EmbedOptions>();
  command.add(input_flags(*options, "text"));
  command.add(model_flags(options->model));
  command.add({
      {"--pooling", "",
       "the mean of all tokens, the first (cls) or the last one; none: a vector for each token; "
       "default: as the file says",
       into::choice(options->pooling, {"none", "mean", "cls", "last"})},
      {"--json", "", "a JSON object per line: {\"line\", \"tokens\", \"embedding\"}",
       into::flag(options->json)},
  });
  command.notes =
      "Prints the numbers of a vector on a line. Vectors have length 1. Blank lines are "
      "skipped. With -p, lines from a pipe come first.\n\n"
      "Examples:\n"
      "  cria embed -m nomic-embed.gguf -p \"search_query: what is a llama?\"\n"
      "  cria embed -m bge-m3.gguf --json -f texts.txt";
  command.run = [options] { return run_embed(*options); };
}

void add_rerank(Program& program) {
  Command& command = program.add("rerank", "Order documents by how well they answer a query");
  auto options = std::make_shared<EmbedOptions>();
  command.add({{"QUERY", "", "the query", into::text(options->query), {.required = true}}});
  command.add(input_flags(*options, "document"));
  command.add(model_flags(options->model));
  command.add({
      {"--top", "N", "print the best N documents only (0: all)",
       into::number(options->top, 0, 1 << 30)},
      {"--json", "", "a JSON object per line: {\"line\", \"relevance_score\", \"document\"}",
       into::flag(options->json)},
  });
  command.notes =
      "The model must have a classifier, as rerankers have. Scores are from 0 to 1, the best "
      "first; blank lines are skipped. With -p, lines from a pipe come first.\n\n"
      "Example:\n"
      "  cria rerank -m bge-reranker.gguf \"what do llamas eat?\" < documents.txt";
  command.run = [options] { return run_rerank(*options); };
}

}  // namespace cria::tools
