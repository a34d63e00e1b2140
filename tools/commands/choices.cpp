#include "tools/commands/choices.h"

#include <charconv>
#include <chrono>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/evaluate/divergence.h"
#include "model/file/json.h"
#include "model/plural.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

const Json& member(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) return *found;
  }
  throw Error("", std::string("no ") + *names.begin());
}

std::string text(const Json& value, const char* what) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    throw Error("", std::string(what) + ": expected text, got " + value.type_name());
  return value.get<std::string>();
}

std::vector<std::string> texts(const Json& list, const char* what) {
  if (!list.is_array())
    throw Error("", std::string(what) + ": expected a list, got " + list.type_name());
  std::vector<std::string> result;
  for (const Json& entry : list) result.push_back(text(entry, what));
  return result;
}

/// An index, a label, or a choice's text. A number is an index: with the choices "2", "0", "1" the
/// answer 1 is the second.
std::size_t find_answer(const Json& answer, const std::vector<std::string>& choices,
                        const std::vector<std::string>& labels) {
  const std::string word = answer.is_string() ? answer.get<std::string>() : answer.dump();
  const auto place = [&word](const std::vector<std::string>& list) {
    return static_cast<std::size_t>(std::ranges::find(list, word) - list.begin());
  };
  if (const std::size_t at = place(labels); at < labels.size()) return at;
  std::size_t index = 0;
  const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), index);
  const bool is_index =
      bad == std::errc() && end == word.data() + word.size() && index < choices.size();
  const std::size_t at = answer.is_number() ? choices.size() : place(choices);
  if (at < choices.size()) return at;
  if (is_index) return index;
  throw Error("", "answer: expected an index below " + std::to_string(choices.size()) +
                      ", a label or a choice, got " + word.substr(0, 100));
}

ChoiceQuestion parse_question(const std::string& line) {
  const Json object = try_json(line);
  if (!object.is_object()) throw Error("", "expected a JSON object");
  for (const char* const lost : {"context", "passage", "article", "story", "support"})
    if (object.contains(lost) && object[lost].is_string() && object[lost] != "")
      throw Error("", '"' + std::string(lost) +
                          "\" would be lost: put it in front of the question, into \"question\"");
  ChoiceQuestion question;
  question.question = text(member(object, {"question", "ctx"}), "question");
  const Json& choices = member(object, {"choices", "endings"});
  std::vector<std::string> labels;
  if (choices.is_object()) {
    question.choices = texts(member(choices, {"text"}), "choices");
    if (choices.contains("label")) labels = texts(choices["label"], "label");
  } else {
    question.choices = texts(choices, "choices");
  }
  if (question.choices.size() < 2)
    throw Error("", "expected at least 2 choices, got " + std::to_string(question.choices.size()));
  if (!labels.empty() && labels.size() != question.choices.size())
    throw Error("", "expected one label per choice, got " + std::to_string(labels.size()) +
                        " and " + std::to_string(question.choices.size()));
  question.answer =
      find_answer(member(object, {"answer", "answerKey", "label"}), question.choices, labels);
  return question;
}

}  // namespace

std::vector<ChoiceQuestion> read_choices(const std::string& path) {
  std::istringstream lines(read_file(path));
  std::vector<ChoiceQuestion> questions;
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      questions.push_back(parse_question(line));
    } catch (const Error& error) {
      throw Error(path == "-" ? "stdin" : path, error.what(), "line " + std::to_string(number));
    }
  }
  if (questions.empty()) throw Error(path, "no questions");
  return questions;
}

namespace {

/// Reports errors of all questions before the first is scored.
void require_good(const Engine& engine, const std::vector<ChoiceQuestion>& questions) {
  for (std::size_t i = 0; i < questions.size(); ++i) {
    try {
      require_scorable(engine, questions[i]);
    } catch (const Error& error) {
      throw Error("", error.what(), "question " + std::to_string(i + 1));
    }
  }
}

}  // namespace

void run_choices(Engine& engine, const std::vector<ChoiceQuestion>& questions, bool json_wanted) {
  require_good(engine, questions);
  const std::atomic<bool>& interrupted = catch_interrupts();
  const auto start = std::chrono::steady_clock::now();
  MeanVariance right, right_raw;
  std::size_t evaluated = 0;
  {
    Progress progress("questions", "questions", questions.size());
    for (const ChoiceQuestion& question : questions) {
      if (interrupted) {
        progress.wipe();
        print_line("stopped after " + std::to_string(right.n) + " of " +
                   counted(questions.size(), "question"));
        throw Interrupted();
      }
      const ChoiceScores scores = score_choices(engine, question);
      right.add(scores.likeliest == question.answer ? 1 : 0);
      right_raw.add(scores.likeliest_raw == question.answer ? 1 : 0);
      evaluated += scores.evaluated;
      progress.update(right.n,
                      fixed(100 * right.mean, 2) + " ± " + fixed(100 * right.error(), 2) + " %");
    }
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const double rate = static_cast<double>(evaluated) / spent.count();
  if (json_wanted) {
    const Json object = {
        {"accuracy", right.mean},         {"accuracy_stderr", right.error()},
        {"accuracy_raw", right_raw.mean}, {"accuracy_raw_stderr", right_raw.error()},
        {"questions", right.n},           {"tokens_per_second", rate}};
    write_stdout(json_text(object));
  } else {
    const auto share = [](const MeanVariance& m) {
      return fixed(100 * m.mean, 2) + " ± " + fixed(100 * m.error(), 2) + " %";
    };
    write_text("accuracy " + share(right) + " of " + counted(right.n, "question") +
               " by length-normalised likelihood, " + share(right_raw) + " by likelihood (" +
               fixed(rate, 1) + " tokens/s)\n");
  }
  flush_stdout();
}

}  // namespace cria::tools
