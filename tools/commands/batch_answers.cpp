#include "tools/commands/batch_answers.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/error.h"
#include "model/file/binary_file.h"
#include "model/file/json.h"
#include "tools/options/values.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

std::string batch_answer_id(std::size_t index, std::string_view request) {
  Hash hash;
  hash.add(request.data(), request.size());
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash.value()));
  return std::to_string(index) + "-" + digits;
}

BatchAnswers::BatchAnswers(const std::string& path, std::vector<std::string> ids, bool in_order)
    : path_(path), ids_(std::move(ids)), in_order_(in_order), answered_(ids_.size()) {
  if (path_ == "-") return;
  if (std::filesystem::is_regular_file(path_)) resume();
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (!file_) throw Error(path_, std::string("cannot be written: ") + std::strerror(errno));
  while (next_ < ids_.size() && answered_[next_]) ++next_;
}

void BatchAnswers::resume() {
  const std::string text = read_file(path_);
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto json = try_json(std::string_view(text).substr(begin, end - begin));
    const std::string id = json.is_object() && json.contains("id") && json["id"].is_string()
                               ? json["id"].get<std::string>()
                               : std::string();
    std::size_t index = ids_.size();
    std::from_chars(id.data(), id.data() + id.size(), index);
    if (index >= ids_.size() || ids_[index] != id) refuse(begin);
    if (!answered_[index]) ++count_;
    answered_[index] = true;
    if (json.contains("error") && !json["error"].is_null()) ++errors_;
    const Json& body = json.contains("response") ? json["response"] : json;
    const Json& answer = body.is_object() && body.contains("body") ? body["body"] : body;
    if (answer.is_object() && answer.contains("seed") && answer["seed"].is_number_unsigned())
      seeds_[index] = answer["seed"].get<std::uint64_t>();
  }
  if (begin == text.size()) return;
  if (!is_cut_answer(std::string_view(text).substr(begin))) refuse(begin);
  std::filesystem::resize_file(path_, begin);
}

/// True if an answer to one of the requests begins like this: a killed run has left it.
bool BatchAnswers::is_cut_answer(std::string_view line) const {
  return std::ranges::any_of(ids_, [line](const std::string& id) {
    const std::string head = "{\"id\":\"" + id + "\"";
    return line.starts_with(head) || head.starts_with(line);
  });
}

void BatchAnswers::refuse(std::size_t begin) const {
  throw Error(path_, "holds more than answers to these requests: they need a file of their own",
              "at byte " + std::to_string(begin));
}

std::optional<std::uint64_t> BatchAnswers::seed(std::size_t index) const {
  const auto found = seeds_.find(index);
  return found == seeds_.end() ? std::nullopt : std::optional(found->second);
}

void BatchAnswers::write(const std::string& line) {
  if (!file_) return write_stdout(line + "\n"), flush_stdout();
  const bool good = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                    std::fputc('\n', file_.get()) != EOF && std::fflush(file_.get()) == 0;
  if (good) return;
  if (errno == EPIPE) throw OutputClosed();
  throw Error(path_, std::string("cannot be written: ") + std::strerror(errno));
}

void BatchAnswers::add(std::size_t index, const std::string& line) {
  answered_[index] = true;
  ++count_;
  if (!in_order_) return write(line);
  early_.emplace(index, line);
  while (next_ < ids_.size() && answered_[next_]) {
    if (const auto ready = early_.find(next_); ready != early_.end()) {
      write(ready->second);
      early_.erase(ready);
    }
    ++next_;
  }
}

}  // namespace cria::tools
